#include "paceline/torch/data/sampler.h"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <utility>

#include "paceline/core/base/chunk.h"
#include "paceline/core/base/result.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/compress/compress.h"

namespace paceline::data {
namespace {

void require_rank(int rank, int world_size) {
  if (world_size < 1 || rank < 0 || rank >= world_size) {
    throw_misuse(c10::str("rank ", rank, " of ", world_size, " does not exist"));
  }
}

constexpr std::array<std::pair<std::string_view, BatchSplit>, 3> kBatchSplits = {
    {{"shuffled", BatchSplit::shuffled},
     {"contiguous", BatchSplit::contiguous},
     {"with_replacement", BatchSplit::with_replacement}}};

// The begin of part `index` of `count` samples, which is the end of the one before it.
std::int64_t part_offset(std::int64_t count, int parts, int index) {
  return static_cast<std::int64_t>(chunk_offset(static_cast<std::size_t>(count), parts, index));
}

at::Tensor every(const at::Tensor& order, std::int64_t begin, std::int64_t end, std::int64_t step) {
  if (begin >= end) return at::empty({0}, at::kLong);
  return order.slice(0, begin, end, step).contiguous();
}

__extension__ using DrawnProduct = unsigned __int128;

}  // namespace

at::Tensor shuffled(std::int64_t samples, std::uint64_t seed, std::int64_t epoch) {
  at::Generator generator =
      at::detail::createCPUGenerator(seed + static_cast<std::uint64_t>(epoch));
  return at::randperm(samples, generator, at::TensorOptions().dtype(at::kLong));
}

std::vector<std::string> batch_split_names() {
  std::vector<std::string> names;
  for (const auto& [name, split] : kBatchSplits) names.emplace_back(name);
  return names;
}

std::optional<BatchSplit> batch_split_named(std::string_view name) {
  for (const auto& [known, split] : kBatchSplits)
    if (known == name) return split;
  return std::nullopt;
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
  if (epoch != epoch_) begin_epoch(epoch);
  switch (options_.split) {
    case BatchSplit::shuffled: break;
    case BatchSplit::contiguous: return of_own_block(begin, end);
    case BatchSplit::with_replacement: return {drawn(begin, end), end - begin};
  }
  return {every(order_, begin + options_.rank, end, options_.world_size), end - begin};
}

void GlobalBatches::begin_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  const auto [samples, batch_size, seed, rank, ranks, split] = options_;
  if (split == BatchSplit::shuffled) order_ = shuffled(samples, seed, epoch);
  if (split != BatchSplit::contiguous) return;
  const std::int64_t begin = part_offset(samples, ranks, rank),
                     count = part_offset(samples, ranks, rank + 1) - begin;
  order_ = shuffled(count, mix(seed, static_cast<std::uint64_t>(rank)), epoch).add_(begin);
}

// Each rank takes the same share of its block in a batch, to within one sample.
GlobalBatches::Part GlobalBatches::of_own_block(std::int64_t begin, std::int64_t end) const {
  const auto place = [&](int rank, std::int64_t of_all) {
    const std::int64_t block = part_offset(options_.samples, options_.world_size, rank + 1) -
                               part_offset(options_.samples, options_.world_size, rank);
    return block * of_all / options_.samples;
  };
  std::int64_t size = 0;
  for (int rank = 0; rank < options_.world_size; ++rank)
    size += place(rank, end) - place(rank, begin);
  return {every(order_, place(options_.rank, begin), place(options_.rank, end), 1), size};
}

at::Tensor GlobalBatches::drawn(std::int64_t begin, std::int64_t end) const {
  const auto [samples, batch_size, seed, rank, ranks, split] = options_;
  const std::int64_t first = begin + part_offset(end - begin, ranks, rank),
                     last = begin + part_offset(end - begin, ranks, rank + 1);
  at::Tensor indices = at::empty({last - first}, at::kLong);
  auto* const into = indices.mutable_data_ptr<std::int64_t>();
  for (std::int64_t place = first; place < last; ++place)
    into[place - first] = drawn_sample(static_cast<std::uint64_t>(place), samples, seed, epoch_);
  return indices;
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
  if (options.contiguous && options.consumed > 0) {
    throw_misuse(c10::str("ShareOptions::consumed is ", options.consumed,
                          " beside contiguous: the rest of an epoch can be shared anew only if "
                          "each rank takes every P-th sample"));
  }
  const at::Tensor places =
      options.contiguous
          ? at::arange(length, at::kLong).add_(length * options.rank)
          : at::arange(length, at::kLong).mul_(ranks).add_(options.consumed + options.rank);
  return order.index_select(0, places.remainder(samples));
}

at::Tensor exact_share_of(std::int64_t samples, int rank, int world_size) {
  require_rank(rank, world_size);
  return every(at::arange(samples, at::kLong), rank, samples, world_size);
}

std::int64_t drawn_sample(std::uint64_t place, std::int64_t samples, std::uint64_t seed,
                          std::int64_t epoch) {
  const auto low_word = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const std::array<std::uint32_t, 2> key = {low_word(seed),
                                            low_word(static_cast<std::uint64_t>(epoch))};
  const auto count = static_cast<std::uint64_t>(samples);
  const std::uint64_t unfair = (0 - count) % count;  // 2^64 mod count
  for (std::uint32_t attempt = 0;; ++attempt) {
    const auto words = compress::philox({low_word(place), low_word(place >> 32), attempt, 0}, key);
    const std::uint64_t word = words[0] | std::uint64_t{words[1]} << 32;
    const DrawnProduct product = DrawnProduct{word} * count;
    if (static_cast<std::uint64_t>(product) >= unfair)
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(product >> 64));
  }
}

}  // namespace paceline::data
