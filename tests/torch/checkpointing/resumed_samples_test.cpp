// A training that dies in the middle of an epoch goes on with another number of ranks, and in the
// steps that count it sees each sample of an epoch once.
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "paceline/core/base/seed.h"
#include "paceline/torch/data/data.h"
#include "tests/support/seed.h"
#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

constexpr std::uint64_t kOrder = 11;  // the seed of the data's order
constexpr std::int64_t kEvery = 4;    // steps between saves

// The samples of each step, as all ranks of one run saw them.
using Seen = std::map<std::int64_t, std::multiset<std::int64_t>>;

class SeenByAll {
 public:
  void add(std::int64_t step, const at::Tensor& indices) {
    const std::lock_guard lock(mutex_);
    const auto* first = indices.const_data_ptr<std::int64_t>();
    seen_[step].insert(first, first + indices.numel());
  }
  Seen take() { return std::move(seen_); }

 private:
  std::mutex mutex_;
  Seen seen_;
};

// A run that begins at the newest checkpoint and dies after `last` steps, whatever is saved then.
struct Life {
  int ranks;
  std::int64_t last;
};

// The steps that count: those of each life up to the one from which the next life went on.
struct Committed {
  Seen steps;
  void begin_life_at(std::int64_t step) { steps.erase(steps.lower_bound(step), steps.end()); }
  void add(Seen life) { steps.merge(life); }
};

// Lives that end at random, on 1 to 7 ranks, until `steps` are done.
std::vector<Life> random_lives(SeededNumbers& numbers, std::int64_t steps) {
  std::vector<Life> lives;
  for (std::int64_t at = 0; at < steps;) {
    at = std::min(at + 1 + static_cast<std::int64_t>(numbers.below(9)), steps);
    lives.push_back({1 + static_cast<int>(numbers.below(7)), at});
  }
  lives.push_back({lives.back().ranks, steps});
  return lives;
}

TEST(ResumedSamples, OfGlobalBatchesCountOnceInEachEpochOnAnyNumbersOfRanks) {
  constexpr std::int64_t kSamples = 103, kBatch = 10, kPerEpoch = 11, kEpochs = 3;
  for (std::uint64_t round = 0; round < 5; ++round) {
    SeededNumbers numbers(test::seed(round));
    const TemporaryFolder folder;
    Committed committed;
    for (const Life& life : random_lives(numbers, kEpochs * kPerEpoch)) {
      SeenByAll seen;
      std::int64_t began = 0;
      run_ranks(life.ranks, [&](Job& job) {
        data::GlobalBatches batches({.samples = kSamples,
                                     .batch_size = kBatch,
                                     .seed = kOrder,
                                     .rank = job.rank(),
                                     .world_size = life.ranks});
        Checkpoints checkpoints(job, folder.file("run"), {.every = kEvery, .resume = true});
        std::int64_t step = checkpoints.resume();
        if (job.rank() == 0) began = step;
        while (step < life.last) {
          seen.add(step, batches.at(step).indices);
          checkpoints.save_if_due(++step);
        }
        checkpoints.finish();
      });
      committed.begin_life_at(began);
      committed.add(seen.take());
    }
    ASSERT_EQ(committed.steps.size(), static_cast<std::size_t>(kEpochs * kPerEpoch));
    for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      std::multiset<std::int64_t> all;
      for (std::int64_t step = epoch * kPerEpoch; step < (epoch + 1) * kPerEpoch; ++step)
        all.insert(committed.steps[step].begin(), committed.steps[step].end());
      ASSERT_EQ(all.size(), static_cast<std::size_t>(kSamples)) << "round " << round;
      for (std::int64_t sample = 0; sample < kSamples; ++sample) ASSERT_EQ(all.count(sample), 1U);
    }
  }
}

// Shares are of equal length, so that the last life of an epoch repeats less than one sample a
// rank.
TEST(ResumedSamples, OfSharesOfTheRestCountOnceButForThePaddingOfTheLastLife) {
  constexpr std::int64_t kSamples = 211, kEach = 5;  // samples of a rank in a step
  for (std::uint64_t round = 0; round < 5; ++round) {
    SeededNumbers numbers(test::seed(100 + round));
    const TemporaryFolder folder;
    Committed committed;
    std::int64_t consumed_at_last = 0;
    int last_ranks = 0;
    for (bool is_done = false; !is_done;) {
      const int ranks = 1 + static_cast<int>(numbers.below(7));
      const std::int64_t most = 1 + static_cast<std::int64_t>(numbers.below(9));
      SeenByAll seen;
      std::int64_t began = 0;
      run_ranks(ranks, [&](Job& job) {
        std::int64_t consumed = 0;
        Checkpoints checkpoints(job, folder.file("run"), {.every = kEvery, .resume = true});
        checkpoints.add("data", [&](CheckpointFields& f) { f("consumed", consumed); });
        std::int64_t step = checkpoints.resume();
        const std::int64_t last = step + most;
        // The share of this life; rank 0's `consumed` is what the checkpoint held.
        const at::Tensor share = data::share_of(
            kSamples,
            {.rank = job.rank(), .world_size = ranks, .seed = kOrder, .consumed = consumed});
        if (job.rank() == 0) {
          began = step;
          consumed_at_last = consumed;
          last_ranks = ranks;
        }
        std::int64_t place = 0;
        while (step < last && place < share.numel()) {
          const at::Tensor batch = share.slice(0, place, std::min(place + kEach, share.numel()));
          seen.add(step, batch);
          place += batch.numel();
          consumed += batch.numel() * ranks;
          checkpoints.save_if_due(++step);
        }
        checkpoints.finish();
        if (job.rank() == 0) is_done = place == share.numel();
      });
      committed.begin_life_at(began);
      committed.add(seen.take());
    }
    std::multiset<std::int64_t> all;
    for (const auto& [step, samples] : committed.steps) all.insert(samples.begin(), samples.end());
    const std::int64_t rest = kSamples - consumed_at_last,
                       padding = (last_ranks - rest % last_ranks) % last_ranks;
    ASSERT_EQ(all.size(), static_cast<std::size_t>(kSamples + padding)) << "round " << round;
    for (std::int64_t sample = 0; sample < kSamples; ++sample) ASSERT_GE(all.count(sample), 1U);
  }
}

}  // namespace
}  // namespace paceline
