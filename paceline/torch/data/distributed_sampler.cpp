#include "paceline/torch/data/distributed_sampler.h"

#include <torch/torch.h>

#include <algorithm>

namespace paceline::data {

DistributedSampler::DistributedSampler(std::size_t samples, const ShareOptions& options)
    : samples_(samples), options_(options), epoch_(std::make_shared<std::int64_t>(options.epoch)) {
  reset();
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  *epoch_ = epoch;
}

std::int64_t DistributedSampler::epoch() const {
  return *epoch_;
}

void DistributedSampler::reset(std::optional<std::size_t> new_size) {
  samples_ = new_size.value_or(samples_);
  options_.epoch = *epoch_;
  const at::Tensor share = share_of(static_cast<std::int64_t>(samples_), options_);
  const auto* first = share.const_data_ptr<std::int64_t>();
  order_.assign(first, first + share.numel());
  place_ = 0;
}

std::optional<std::vector<std::size_t>> DistributedSampler::next(std::size_t batch_size) {
  const std::size_t end = std::min(order_.size(), place_ + batch_size);
  if (place_ == end) return std::nullopt;
  const auto begin = order_.begin();
  std::vector<std::size_t> batch(begin + static_cast<std::ptrdiff_t>(place_),
                                 begin + static_cast<std::ptrdiff_t>(end));
  place_ = end;
  return batch;
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", c10::IValue(options_.epoch));
  archive.write("place", c10::IValue(static_cast<std::int64_t>(place_)));
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  c10::IValue epoch, place;
  archive.read("epoch", epoch);
  archive.read("place", place);
  *epoch_ = epoch.toInt();
  reset();
  place_ = std::min(static_cast<std::size_t>(place.toInt()), order_.size());
}

}  // namespace paceline::data
