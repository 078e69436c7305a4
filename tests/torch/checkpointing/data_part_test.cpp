// A sampler's place in the data goes on after a resume, in the middle of an epoch, on any number of
// ranks.
#include <mutex>
#include <set>

#include "paceline/core/base/seed.h"
#include "paceline/torch/data/data.h"
#include "tests/support/seed.h"
#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

// Sample i is the number i.
class NumberedSamples : public torch::data::datasets::Dataset<NumberedSamples> {
 public:
  explicit NumberedSamples(std::int64_t count) : count_(count) {}
  torch::data::Example<> get(std::size_t index) override {
    return {at::full({1}, static_cast<std::int64_t>(index), at::kLong), at::zeros({1})};
  }
  std::optional<std::size_t> size() const override { return static_cast<std::size_t>(count_); }

 private:
  std::int64_t count_;
};

struct StepSamples {
  std::int64_t epoch = 0;
  std::multiset<std::int64_t> samples;
  bool operator==(const StepSamples&) const = default;
};
using SamplesOfSteps = std::map<std::int64_t, StepSamples>;

// A program that walks a loader, and dies after `last` steps.
struct WalkedLoader {
  std::string directory;
  std::int64_t samples = 53, epochs = 2, last = 1 << 20;
  int ranks = 2;
  std::size_t workers = 0;
  data::ShareOptions share = {.seed = 5};

  // Returns what all ranks saw, by step, and in `began` the step from which it went on.
  SamplesOfSteps run(std::int64_t* began = nullptr) const {
    std::mutex mutex;
    SamplesOfSteps seen;
    run_ranks(ranks, [&](Job& job) {
      data::ShareOptions options = share;
      options.rank = job.rank();
      options.world_size = ranks;
      data::DistributedSampler sampler(static_cast<std::size_t>(samples), options);
      const auto loader = torch::data::make_data_loader(
          NumberedSamples(samples).map(torch::data::transforms::Stack<>()), sampler,
          torch::data::DataLoaderOptions(2).workers(workers));
      sampler.taken_ahead(loader->options().max_jobs);
      Checkpoints checkpoints(job, directory, {.every = 3, .resume = true});
      checkpoints.add("data", sampler);
      std::int64_t step = checkpoints.resume();
      if (job.rank() == 0 && began != nullptr) *began = step;
      for (std::int64_t epoch = sampler.epoch(); epoch < epochs && step < last; ++epoch) {
        sampler.set_epoch(epoch);
        for (auto& batch : *loader) {
          {
            const std::lock_guard lock(mutex);
            StepSamples& of = seen[step];
            of.epoch = epoch;
            const at::Tensor flat = batch.data.flatten().contiguous();
            const auto* const first = flat.const_data_ptr<std::int64_t>();
            of.samples.insert(first, first + flat.numel());
          }
          checkpoints.save_if_due(++step);
          if (step == last) break;
        }
      }
      checkpoints.finish();
    });
    return seen;
  }
};

TEST(DataPart, AnEpochGoesOnInItsMiddleWithTheSameSamplesInEachStep) {
  for (const std::size_t workers : {0, 2}) {
    for (const bool contiguous : {false, true}) {
      const TemporaryFolder folder;
      WalkedLoader walked{.directory = folder.file("whole"), .workers = workers};
      walked.share.contiguous = contiguous;
      const SamplesOfSteps whole = walked.run();
      walked.directory = folder.file("parted");
      SamplesOfSteps counted;
      for (const std::int64_t last : {5, 17, 1 << 20}) {
        walked.last = last;
        std::int64_t began = 0;
        SamplesOfSteps life = walked.run(&began);
        counted.erase(counted.lower_bound(began), counted.end());
        counted.merge(life);
      }
      EXPECT_TRUE(counted == whole) << workers << " workers, contiguous: " << contiguous;
    }
  }
}

TEST(DataPart, EachSampleComesOnceInAnEpochOnChangingNumbersOfRanks) {
  for (std::uint64_t round = 0; round < 4; ++round) {
    SeededNumbers numbers(test::seed(round));
    const TemporaryFolder folder;
    WalkedLoader walked{.directory = folder.file("run"), .workers = round % 3};
    SamplesOfSteps counted;
    for (bool is_over = false; !is_over;) {
      walked.ranks = 1 + static_cast<int>(numbers.below(5));
      std::int64_t began = 0;
      walked.last = (counted.empty() ? 0 : counted.rbegin()->first) + 1 +
                    static_cast<std::int64_t>(numbers.below(9));
      SamplesOfSteps life = walked.run(&began);
      is_over = life.empty() || life.rbegin()->first + 1 < walked.last;
      counted.erase(counted.lower_bound(began), counted.end());
      counted.merge(life);
    }
    std::map<std::int64_t, std::multiset<std::int64_t>> epochs;
    for (const auto& [step, of] : counted)
      epochs[of.epoch].insert(of.samples.begin(), of.samples.end());
    ASSERT_EQ(epochs.size(), 2U);
    for (const auto& [epoch, all] : epochs) {
      for (std::int64_t sample = 0; sample < walked.samples; ++sample)
        ASSERT_GE(all.count(sample), 1U) << "round " << round << ", epoch " << epoch;
      // The share of the last life of an epoch is padded to as many samples for each rank.
      EXPECT_LT(all.size(), static_cast<std::size_t>(walked.samples + 5)) << "round " << round;
    }
  }
}

TEST(DataPart, RanksAtDifferentPlacesGoOnAtTheFirstOfThem) {
  const TemporaryFolder folder;
  using Place = data::DistributedSampler::Place;
  for (const int ranks : {2, 2, 1, 3}) {
    const bool is_first = !fs::exists(folder.file("run"));
    run_ranks(ranks, [&](Job& job) {
      data::DistributedSampler sampler(40, {.rank = job.rank(), .world_size = ranks});
      Checkpoints checkpoints(job, folder.file("run"), {.resume = true});
      checkpoints.add("data", sampler);
      checkpoints.resume();
      const std::int64_t taken = job.rank() == 0 ? 9 : 5;
      if (is_first) {
        sampler.next(static_cast<std::size_t>(taken));
        checkpoints.save(1);
      } else if (ranks == 2) {
        EXPECT_EQ(sampler.place(), (Place{0, 0, taken}));
      } else {
        EXPECT_EQ(sampler.place(), (Place{0, 10, 0}));
      }
    });
  }
}

TEST(DataPart, WorkersThatTakeBatchesAheadMustBeTold) {
  const TemporaryFolder folder;
  run_ranks(1, [&](Job& job) {
    data::DistributedSampler sampler(40, {});
    const auto loader =
        torch::data::make_data_loader(NumberedSamples(40).map(torch::data::transforms::Stack<>()),
                                      sampler, torch::data::DataLoaderOptions(2).workers(1));
    Checkpoints checkpoints(job, folder.file("run"));
    checkpoints.add("data", sampler);
    std::int64_t step = checkpoints.resume();
    EXPECT_THAT(misuse_of([&] {
                  for ([[maybe_unused]] auto& batch : *loader) checkpoints.save_if_due(++step);
                }),
                HasSubstr("taken_ahead(loader->options().max_jobs)"));
    EXPECT_EQ(step, 2);
  });
}

TEST(DataPart, APlaceInOtherDataIsRefusedByName) {
  const TemporaryFolder folder;
  WalkedLoader walked{.directory = folder.file("run"), .last = 4};
  walked.run();
  const auto refusal = [](const WalkedLoader& other) { return misuse_of([&] { other.run(); }); };
  WalkedLoader other = walked;
  other.samples = 60;
  EXPECT_THAT(refusal(other), AllOf(HasSubstr("samples = 53"), HasSubstr("samples = 60")));
  other = walked;
  other.share.seed = 6;
  EXPECT_THAT(refusal(other), AllOf(HasSubstr("seed = 5"), HasSubstr("seed = 6")));
  WalkedLoader blocks{.directory = folder.file("blocks"), .last = 4};
  blocks.share.contiguous = true;
  blocks.run();
  blocks.ranks = 3;
  EXPECT_THAT(refusal(blocks), AllOf(HasSubstr("by 2 ranks"), HasSubstr("contiguous")));
}

}  // namespace
}  // namespace paceline
