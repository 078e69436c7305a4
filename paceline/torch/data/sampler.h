// Decides which samples a rank takes. Every rank computes the same order from the same seed;
// nothing is sent.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::data {

// The order of epoch `epoch`: at::randperm(samples) with a CPU generator seeded `seed + epoch`.
// Python's torch gives the same.
at::Tensor shuffled(std::int64_t samples, std::uint64_t seed, std::int64_t epoch);

// How the samples of an epoch come into global batches, and to ranks.
enum class BatchSplit : std::uint8_t {
  // Each sample comes once, in an order that is new in each epoch: batch k is perm[kB, (k+1)B), of
  // which rank r takes the entries r, r+P, ...
  shuffled,
  // Rank r keeps the r-th of P blocks of the data set, and walks it in an order that is new in each
  // epoch: each sample comes once. Global batches depend on the number of ranks.
  contiguous,
  // Each place of a batch draws one of all samples (sampler.h): an epoch has as many draws as there
  // are samples, so about 63 % of them come, some several times. Rank r takes the r-th part of
  // batch k's places.
  with_replacement,
};

std::vector<std::string> batch_split_names();
std::optional<BatchSplit> batch_split_named(std::string_view name);

// Cuts each epoch into global batches and each global batch into the parts of the ranks. Except
// under `contiguous`, the global batches, and with them the training, do not depend on the number
// of ranks P. The last batch of an epoch may be smaller; parts may differ by a sample, and be
// empty: weigh them by their size.
class GlobalBatches {
 public:
  struct Options {
    std::int64_t samples = 0;
    std::int64_t batch_size = 0;  // of all ranks together
    std::uint64_t seed = 0;
    int rank = 0;
    int world_size = 1;
    BatchSplit split = BatchSplit::shuffled;
  };
  // THROWS Error (misuse): there are no samples, or batches are smaller than the world (the text
  // names both and the remedy).
  explicit GlobalBatches(const Options& options);

  std::int64_t per_epoch() const;  // batches

  struct Part {
    at::Tensor indices;            // i64: this rank's samples
    std::int64_t global_size = 0;  // samples of all ranks in this batch
  };
  // Batch `step` of the run, counted from 0; epochs follow each other.
  Part at(std::int64_t step);

 private:
  void begin_epoch(std::int64_t epoch);
  Part of_own_block(std::int64_t begin, std::int64_t end) const;
  at::Tensor drawn(std::int64_t begin, std::int64_t end) const;

  Options options_;
  std::int64_t epoch_ = -1;  // the epoch of order_
  at::Tensor order_;         // of all samples, or of this rank's block
};

// DistributedSampler's semantics (docs/guide/data_parallel.md): each rank gets a share of equal
// length, rank r the entries r, r+P, ... of the order, or, if it is contiguous, the r-th of P
// blocks of it. The order is padded with its own first entries to a multiple of P (or cut to one
// with drop_last).
struct ShareOptions {
  int rank = 0;
  int world_size = 1;
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;  // another number for each epoch, or every epoch has the same order
  bool drop_last = false;
  // Samples of this epoch that all ranks together have consumed before: the share is that of the
  // rest of the order, also after a restart on another number of ranks. As many samples as there
  // are leave nothing.
  std::int64_t consumed = 0;
  bool contiguous = false;  // not with `consumed`: blocks of another number of ranks lie elsewhere
};
// THROWS Error (misuse): no samples; options that do not go together.
at::Tensor share_of(std::int64_t samples, const ShareOptions& options);

// The share for evaluation: rank r gets the entries r, r+P, ... of 0..samples-1 without padding, so
// that sums over ranks are exact.
at::Tensor exact_share_of(std::int64_t samples, int rank, int world_size);

// Samples that are drawn with replacement, by random numbers without a state: each draw is a
// function of the seed, the epoch and its place, so all ranks agree on it without a message, and a
// run that is resumed draws it again, on any number of ranks.
//
// The sample at place `place` of epoch `epoch`: one of 0..samples-1, each with exactly the same
// probability. Two words of Philox4x32-10, o0 + 2^32 o1 of the counter (place, attempt, 0) under
// the key (seed, epoch), of which the low 32 bits count, are multiplied by `samples`; the high 64
// bits are the sample. Where the low ones are below 2^64 mod samples the next attempt is made
// instead. REQUIRES: samples > 0.
std::int64_t drawn_sample(std::uint64_t place, std::int64_t samples, std::uint64_t seed,
                          std::int64_t epoch);

}  // namespace paceline::data
