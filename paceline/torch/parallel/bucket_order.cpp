#include "paceline/torch/parallel/bucket_order.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::parallel {

BucketOrder::BucketOrder(std::span<const Parameter> parameters, const DataParallelOptions& options)
    : caps_{options.first_bucket_bytes, options.bucket_bytes}, settled_(options.static_order) {
  for (const Parameter& parameter : parameters) {
    shapes_.push_back({parameter.tensor.nbytes(), *dtype_of(parameter.tensor.scalar_type()), 0});
  }
}

std::vector<schedule::Bucket> BucketOrder::first_plan() const {
  return schedule::plan_buckets(
      shapes_, schedule::reverse_registration_order(static_cast<int>(shapes_.size())), caps_);
}

std::vector<schedule::Bucket> BucketOrder::observed_plan(Communicator& group,
                                                         std::span<const int> arrived) {
  settled_ = true;
  std::vector<std::int64_t> message;
  for (int index : schedule::completed_order(arrived, static_cast<int>(shapes_.size())))
    message.push_back(index);
  group.broadcast(paceline::buffer_of(message), 0).wait();
  return schedule::plan_buckets(shapes_, std::vector<int>(message.begin(), message.end()), caps_);
}

int BucketOrder::late_in(const std::vector<schedule::Bucket>& plan,
                         std::span<const int> arrived) const {
  std::vector<int> place(shapes_.size(), 0);
  int next = 0;
  for (const schedule::Bucket& bucket : plan) {
    for (int index : bucket.gradients) place[static_cast<std::size_t>(index)] = next++;
  }
  int late = 0, furthest = -1;
  for (int index : arrived) {
    late += place[static_cast<std::size_t>(index)] < furthest;
    furthest = std::max(furthest, place[static_cast<std::size_t>(index)]);
  }
  return late;
}

}  // namespace paceline::parallel
