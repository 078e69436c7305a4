#include "paceline/torch/gradient/incoming_means.h"

#include <torch/torch.h>

#include <utility>

#include "paceline/core/base/base.h"

namespace paceline::gradient {

// False: a value overflowed on its way.
bool IncomingMeans::publish(const std::vector<bool>& used) {
  bool is_complete = true;
  for (std::size_t bucket = 0; bucket < means_.layout().groups.size(); ++bucket) {
    is_complete &= wait_for(bucket);
    means_.hand_out(bucket, buckets_.buckets(), used);
    buckets_.release(bucket);
  }
  return !means_.overflow() && is_complete;
}

bool IncomingMeans::wait_for(std::size_t bucket) {
  const auto& groups = means_.layout().groups;
  const auto& members = groups[bucket].gradients;
  const auto name = [&](int index) { return parameters_[static_cast<std::size_t>(index)].name; };
  const auto when = [&] {
    return c10::str(
        "while the gradients of bucket ", bucket + 1, " of ", groups.size(), " ('",
        name(members.front()), "'",
        members.size() > 1 ? c10::str(" to '", name(members.back()), "'") : std::string(),
        ") were averaged");
  };
  return step_.figures.waiting([&] { return telling(when, [&] { return means_.wait(bucket); }); });
}

void IncomingMeans::let_come(std::vector<bool> used, replica::PerParameterOptimizers& updates) {
  used_ = std::move(used);
  updates_ = &updates;
  in_flight_.assign(means_.layout().groups.size(), true);
  are_under_way_ = true;
}

void IncomingMeans::before_use(std::size_t parameter) {
  if (in_flight_.empty() || parameter >= dense_) return;
  const std::size_t bucket = buckets_.buckets().bucket_of(parameter);
  if (in_flight_[bucket]) finish_bucket(bucket);
}

void IncomingMeans::drain() {
  if (!are_under_way_) return;
  for (std::size_t bucket = 0; bucket < in_flight_.size(); ++bucket)
    if (in_flight_[bucket]) finish_bucket(bucket);
  are_under_way_ = false;
}

void IncomingMeans::finish_bucket(std::size_t bucket) {
  step_.failure.rethrow();
  in_flight_[bucket] = false;
  const at::NoGradGuard no_grad;
  if (!step_.failure.communicating([&] { return wait_for(bucket); })) return;
  means_.hand_out(bucket, buckets_.buckets(), used_);
  updates_->update(means_.layout().groups[bucket].gradients);
}

}  // namespace paceline::gradient
