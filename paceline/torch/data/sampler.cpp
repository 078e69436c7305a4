#include "paceline/torch/data/sampler.h"

#include <torch/torch.h>

#include <algorithm>

#include "paceline/core/base/result.h"

namespace paceline::data {
namespace {

void require_rank(int rank, int world_size) {
  if (world_size < 1 || rank < 0 || rank >= world_size) {
    throw_misuse(c10::str("rank ", rank, " of ", world_size, " does not exist"));
  }
}

at::Tensor every(const at::Tensor& order, std::int64_t begin, std::int64_t end, std::int64_t step) {
  if (begin >= end) return at::empty({0}, at::kLong);
  return order.slice(0, begin, end, step).contiguous();
}

}  // namespace

at::Tensor shuffled(std::int64_t samples, std::uint64_t seed, std::int64_t epoch) {
  at::Generator generator =
      at::detail::createCPUGenerator(seed + static_cast<std::uint64_t>(epoch));
  return at::randperm(samples, generator, at::TensorOptions().dtype(at::kLong));
}

GlobalBatches::GlobalBatches(const Options& options) : options_(options) {
  require_rank(options.rank, options.world_size);
  if (options.samples < 1) throw_misuse("a data set without samples cannot be cut into batches");
  if (options.batch_size < options.world_size) {
    throw_misuse(c10::str("a global batch of ", options.batch_size, " cannot be shared by ",
                          options.world_size,
                          " ranks: each needs at least one sample. Raise the batch size to ",
                          options.world_size, " or more, or start fewer workers"));
  }
}

std::int64_t GlobalBatches::per_epoch() const {
  return (options_.samples + options_.batch_size - 1) / options_.batch_size;
}

GlobalBatches::Part GlobalBatches::at(std::int64_t step) {
  const std::int64_t epoch = step / per_epoch(), begin = step % per_epoch() * options_.batch_size;
  const std::int64_t end = std::min(begin + options_.batch_size, options_.samples);
  if (epoch != epoch_) {
    order_ = shuffled(options_.samples, options_.seed, epoch);
    epoch_ = epoch;
  }
  return {every(order_, begin + options_.rank, end, options_.world_size), end - begin};
}

at::Tensor share_of(std::int64_t samples, const ShareOptions& options) {
  require_rank(options.rank, options.world_size);
  if (samples < 1) throw_misuse("a data set without samples cannot be shared");
  if (options.consumed < 0)
    throw_misuse(c10::str("ShareOptions::consumed is ", options.consumed,
                          ": it counts samples, so 0 or more"));
  const std::int64_t ranks = options.world_size;
  const std::int64_t left = std::max<std::int64_t>(0, samples - options.consumed);
  const std::int64_t length = options.drop_last ? left / ranks : (left + ranks - 1) / ranks;
  const at::Tensor order = options.shuffle ? shuffled(samples, options.seed, options.epoch)
                                           : at::arange(samples, at::kLong);
  const at::Tensor places =
      at::arange(length, at::kLong).mul_(ranks).add_(options.consumed + options.rank);
  return order.index_select(0, places.remainder(samples));
}

at::Tensor exact_share_of(std::int64_t samples, int rank, int world_size) {
  require_rank(rank, world_size);
  return every(at::arange(samples, at::kLong), rank, samples, world_size);
}

}  // namespace paceline::data
