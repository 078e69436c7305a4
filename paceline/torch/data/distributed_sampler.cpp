#include "paceline/torch/data/distributed_sampler.h"

#include <torch/torch.h>

#include <algorithm>

#include "paceline/core/base/result.h"

namespace paceline::data {

// One walk through an epoch after the other, as all copies of a sampler see them.
struct DistributedSampler::Walk {
  std::int64_t epoch = 0;           // of the next walk
  Place start = {};                 // where the next walk begins, whatever its epoch
  bool is_restored = false;         // `start` is in its own epoch alone
  Place begun = {};                 // where the present walk began
  std::vector<std::int64_t> given;  // samples of this rank after each call of next()
  std::size_t first_end = 0;        // calls of next() until one gave nothing; 0: none did
  std::optional<std::size_t> ahead = {};

  // Calls of next() before the first batch was given: until there were enough, or there was none.
  std::size_t calls_ahead() const {
    const std::size_t most = ahead.value_or(0);
    return first_end > 0 ? std::min(most, first_end) : most;
  }
};

DistributedSampler::DistributedSampler(std::size_t samples, const ShareOptions& options)
    : samples_(samples), options_(options), walk_(std::make_shared<Walk>()) {
  walk_->epoch = options.epoch;
  walk_->start.consumed = options.consumed;
  reset();
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  if (walk_->is_restored && epoch < walk_->start.epoch) {
    throw_misuse(c10::str("DistributedSampler::set_epoch(", epoch,
                          "): this sampler goes on in epoch ", walk_->start.epoch,
                          ", where a checkpoint has left it. Begin the loop with "
                          "sampler.epoch(), after Checkpoints::resume()"));
  }
  if (walk_->is_restored && epoch != walk_->start.epoch) {
    walk_->start = {};
    walk_->is_restored = false;
  }
  walk_->epoch = epoch;
}

std::int64_t DistributedSampler::epoch() const {
  return walk_->epoch;
}

void DistributedSampler::taken_ahead(std::size_t batches) {
  walk_->ahead = batches;
}

std::optional<std::size_t> DistributedSampler::told_ahead() const {
  return walk_->ahead;
}

DistributedSampler::Place DistributedSampler::place() const {
  const Walk& walk = *walk_;
  if (walk.given.empty() || walk.epoch != walk.begun.epoch) {
    const Place start = walk.given.empty() ? walk.start : Place();
    return {walk.epoch, start.consumed, start.taken};
  }
  const std::size_t calls = walk.given.size(), ahead = walk.calls_ahead();
  Place now = walk.begun;
  if (calls > ahead) now.taken = walk.given[calls - ahead - 1];
  return now;
}

void DistributedSampler::go_on(const Place& place) {
  walk_->given.clear();
  walk_->start = place;
  walk_->is_restored = true;
  walk_->epoch = place.epoch;
  reset();
}

std::optional<std::size_t> DistributedSampler::batches_asked() const {
  if (walk_->given.empty() || walk_->first_end > 0) return std::nullopt;
  return walk_->given.size();
}

void DistributedSampler::reset(std::optional<std::size_t> new_size) {
  samples_ = new_size.value_or(samples_);
  Walk& walk = *walk_;
  if (!walk.given.empty()) {  // the walk that began in the middle of an epoch is over
    walk.start = {};
    walk.is_restored = false;
  }
  walk.begun = {walk.epoch, walk.start.consumed, walk.start.taken};
  walk.given.clear();
  walk.first_end = 0;
  options_.epoch = walk.epoch;
  options_.consumed = walk.begun.consumed;
  const at::Tensor share = share_of(static_cast<std::int64_t>(samples_), options_);
  const auto* first = share.const_data_ptr<std::int64_t>();
  order_.assign(first, first + share.numel());
  place_ = std::min(static_cast<std::size_t>(walk.begun.taken), order_.size());
}

std::optional<std::vector<std::size_t>> DistributedSampler::next(std::size_t batch_size) {
  const std::size_t begin = place_;
  place_ = std::min(order_.size(), place_ + batch_size);
  Walk& walk = *walk_;
  walk.given.push_back(static_cast<std::int64_t>(place_));
  if (place_ == begin) {
    if (walk.first_end == 0) walk.first_end = walk.given.size();
    return std::nullopt;
  }
  return std::vector<std::size_t>(order_.begin() + static_cast<std::ptrdiff_t>(begin),
                                  order_.begin() + static_cast<std::ptrdiff_t>(place_));
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  const Place now = place();
  archive.write("epoch", c10::IValue(now.epoch));
  archive.write("consumed", c10::IValue(now.consumed));
  archive.write("place", c10::IValue(now.taken));
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  c10::IValue epoch, consumed, taken;
  archive.read("epoch", epoch);
  archive.read("place", taken);
  const bool has_consumed = archive.try_read("consumed", consumed);
  go_on({epoch.toInt(), has_consumed ? consumed.toInt() : 0, taken.toInt()});
}

}  // namespace paceline::data
