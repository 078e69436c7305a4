// Runs in a world of threads; covers paceline/app/measure/start_line.h,
// paceline/app/measure/contestant.h, paceline/app/measure/pin.h and
// paceline/app/measure/yardstick.h too.
#include "paceline/app/measure/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/app/measure/contestant.h"
#include "paceline/app/measure/yardstick.h"
#include "tests/support/local_world.h"

namespace paceline::measure {
namespace {

using test::run_ranks;
using ::testing::Each;
using ::testing::Gt;
using ::testing::SizeIs;

constexpr Operation kMoving[] = {
    Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather, Operation::broadcast,
    Operation::reduce,     Operation::gather,         Operation::scatter,    Operation::all_to_all};

TEST(Contestant, OfEveryOperationAndAlgorithmFindsItsResultsRight) {
  for (const int ranks : {1, 2, 3}) {
    run_ranks(ranks, {.reproducible = false}, [](Job& job) {
      Communicator& world = job.world();
      for (const Operation operation : kMoving) {
        for (const std::string_view algorithm : world.algorithms(operation)) {
          for (const std::size_t bytes : {4, 1000, 40'000}) {
            const Candidate candidate{operation, std::string(algorithm), bytes};
            std::vector<std::byte> memory(memory_of(candidate, world.size()));
            const auto contestant = make_contestant(world, candidate, memory);
            for (const int iteration : {0, 1, 2}) {
              contestant->fill(iteration);
              contestant->operate();
              EXPECT_EQ(contestant->wrong(iteration), 0U)
                  << name_of(operation) << " " << algorithm << " of " << bytes;
            }
          }
        }
      }
    });
  }
}

TEST(Contestant, FindsResultsWrongWhereNothingWasDone) {
  run_ranks(3, [](Job& job) {
    for (const Operation operation : kMoving) {
      const bool rooted = has_root(operation);
      const bool changes = !rooted || (job.rank() == 0) == (operation == Operation::reduce ||
                                                            operation == Operation::gather);
      const Candidate candidate{.operation = operation, .bytes = 1200};
      std::vector<std::byte> memory(memory_of(candidate, 3));
      const auto contestant = make_contestant(job.world(), candidate, memory);
      contestant->fill(0);
      EXPECT_EQ(contestant->wrong(0) > 0, changes) << name_of(operation) << " " << job.rank();
      contestant->clear();
      EXPECT_GT(contestant->wrong(0), 0U) << name_of(operation);
    }
  });
}

TEST(Comparison, HasAMedianForEachBlockAndTheSameFiguresOnEveryRank) {
  run_ranks(2, [](Job& job) {
    const std::vector<Candidate> candidates = {
        {.algorithm = "direct", .bytes = 4096},
        {.bytes = 100},
        {.operation = Operation::barrier},
        {.operation = Operation::all_to_all, .bytes = 64, .dtype = Dtype::bf16}};
    int told = 0;
    const Comparison comparison =
        compare(job, job.world(), candidates,
                {.blocks = 3, .operations = 4, .on_block = [&](int, int) { ++told; }});
    EXPECT_EQ(told, 4) << "the block that warms up is told too";
    ASSERT_THAT(comparison.candidates, SizeIs(candidates.size()));
    EXPECT_FALSE(comparison.yardstick.has_value());
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Measurement& measured = comparison.candidates[i];
      EXPECT_EQ(measured.candidate, candidates[i]);
      EXPECT_EQ(measured.errors, 0);
      EXPECT_THAT(measured.block_medians, SizeIs(3));
      EXPECT_THAT(measured.seconds, SizeIs(12));
      EXPECT_THAT(measured.seconds, Each(Gt(0)));
      auto largest = measured.seconds;
      job.world().all_reduce(buffer_of(largest), {.op = ReduceOp::max}).wait();
      EXPECT_EQ(largest, measured.seconds);
    }
  });
}

TEST(Comparison, WithTheYardstickHasARatioForEachBlock) {
  for (const int ranks : {2, 3, 8}) {
    for (const bool ordinary : {false, true}) {
      run_ranks(ranks, [&](Job& job) {
        const std::vector<Candidate> candidates = {{.bytes = 4},
                                                   {.algorithm = "direct", .bytes = 4}};
        const Comparison comparison = compare(
            job, job.world(), candidates,
            {.blocks = 3, .operations = 2, .ordinary_buffers = ordinary, .yardstick = true});
        ASSERT_TRUE(comparison.yardstick.has_value());
        EXPECT_EQ(comparison.yardstick->errors, 0);
        for (const Measurement& measured : comparison.candidates) {
          EXPECT_EQ(measured.errors, 0);
          EXPECT_THAT(ratios(measured, *comparison.yardstick), SizeIs(3));
          EXPECT_THAT(ratios(measured, measured), Each(1.0));
        }
      });
    }
  }
}

TEST(Comparison, OneAfterTheOtherIsCheckedToo) {
  run_ranks(2, [](Job& job) {
    const std::vector<Candidate> candidates = {{.bytes = 4096}};
    const auto comparison =
        compare(job, job.world(), candidates, {.blocks = 2, .operations = 3, .back_to_back = true});
    EXPECT_THAT(comparison.candidates[0].seconds, SizeIs(6));
    EXPECT_EQ(comparison.candidates[0].errors, 0);
  });
}

TEST(Comparison, RefusesAYardstickForWhatItDoesNotMeasure) {
  run_ranks(2, [](Job& job) {
    const std::vector<Candidate> wrong[] = {
        {},
        {{.operation = Operation::broadcast, .bytes = 4}},
        {{.bytes = 4, .dtype = Dtype::f64}},
        {{.bytes = 4}, {.bytes = 8}},
    };
    for (const auto& candidates : wrong) {
      EXPECT_THROW(compare(job, job.world(), candidates, {.yardstick = true}), Error);
    }
  });
}

TEST(Comparison, OfOneRankHasNoYardstickButFigures) {
  run_ranks(1, [](Job& job) {
    const std::vector<Candidate> candidates = {{.bytes = 4}};
    EXPECT_THROW(compare(job, job.world(), candidates, {.yardstick = true}), Error);
    EXPECT_EQ(
        compare(job, job.world(), candidates, {.blocks = 1, .operations = 1}).candidates[0].errors,
        0);
  });
}

}  // namespace
}  // namespace paceline::measure
