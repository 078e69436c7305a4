#include "paceline/core/compress/averaging/averaging.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/averaging_run.h"

namespace paceline::compress {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kElements = 40;

test::AveragingRun run_of_whole() {
  return {
      kRanks, [](int rank) {
        return whole_average({.rows = 4, .columns = kElements / 4, .rank = rank, .ranks = kRanks});
      }};
}

void hold_back(test::AveragingRun& run, const test::Gradients& values) {
  for (int rank = 0; rank < kRanks; ++rank)
    run.restore(rank, {values[static_cast<std::size_t>(rank)]});
}

TEST(WholeAverage, TellsOnceWhatWasHeldBackAndThenTheMeansAlone) {
  const auto first = test::gradients_on_grid(kRanks, kElements, 1);
  const auto held_back = test::gradients_on_grid(kRanks, kElements, 2);
  const auto second = test::gradients_on_grid(kRanks, kElements, 3);
  auto run = run_of_whole();
  hold_back(run, held_back);
  const auto told = run.step(first, 0).means, told_next = run.step(second, 1).means;
  const auto mean = test::mean_of(first), rest = test::mean_of(held_back),
             next = test::mean_of(second);
  for (std::size_t i = 0; i < kElements; ++i) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      EXPECT_NEAR(told[r][i], mean[i] + rest[i], 1e-6);
      EXPECT_NEAR(told_next[r][i], next[i], 1e-6);
    }
  }
  EXPECT_EQ(run.values(1, "residual"), std::vector<float>(kElements));
}

TEST(WholeAverage, KeepsWhatWasHeldBackWhereAStepOverflows) {
  const auto held_back = test::gradients_on_grid(kRanks, kElements, 4);
  auto run = run_of_whole();
  hold_back(run, held_back);
  auto bad = test::gradients_on_grid(kRanks, kElements, 5);
  bad[2][7] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(run.step(bad, 0).overflowed);
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(run.values(rank, "residual"), held_back[static_cast<std::size_t>(rank)]);
}

}  // namespace
}  // namespace paceline::compress
