// Also covers paceline/core/compress/averaging/shared_index_average.h.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/core/compress/kernels/permutation.h"
#include "tests/support/averaging_run.h"

namespace paceline::compress::random_k_claims {
namespace {

using test::AveragingRun;
using test::mean_of;
using test::run_of;

constexpr std::size_t kElements = 1003;

TEST(RandomK, LosesNothing) {
  for (const int ranks : {1, 2, 4, 8}) {
    AveragingRun run = run_of("random_k:ratio=0.05", ranks, 1, kElements);
    EXPECT_EQ(lost_over(40, run, ranks, kElements, test::mean_state(ranks)), 0) << ranks;
  }
}

TEST(RandomK, SendsItsValuesAloneInOneAllReduce) {
  AveragingRun run = run_of("random_k:ratio=0.05", 4, 17, 59);
  run.step(test::gradients_of(4, kElements, 1), 1);
  EXPECT_EQ(run.kinds, std::vector{Exchange::Kind::all_reduce});
  EXPECT_EQ(run.reduced_bytes, 4 * 51u);
}

TEST(RandomK, IsTheMeanAtTheElementsThatAllRanksDraw) {
  AveragingRun run = run_of("random_k:ratio=0.05", 4, 1, kElements);
  const auto gradients = test::gradients_on_grid(4, kElements, 1);
  const auto mean = mean_of(gradients);
  const auto result = run.step(gradients, 9).means.front();
  std::vector<float> expected(kElements);
  for (const std::uint32_t i : random_indices(kElements, 51, 7, 5, 9))
    expected[i] = static_cast<float>(mean[i]);
  EXPECT_EQ(result, expected);
}

TEST(RandomK, WithoutFeedbackIsScaledToBeUnbiasedAndLinear) {
  AveragingRun run = run_of("random_k:ratio=0.1,feedback=off", 4, 1, 600);
  AveragingRun alone = run_of("random_k:ratio=0.1,feedback=off", 1, 1, 600);
  const auto gradients = test::gradients_on_grid(4, 600, 1);
  const auto mean = mean_of(gradients);
  const auto result = run.step(gradients, 3).means.front();
  EXPECT_EQ(result, alone.step({std::vector<float>(mean.begin(), mean.end())}, 3).means.front());
  for (std::size_t i = 0; i < result.size(); ++i)
    EXPECT_TRUE(result[i] == 0 || result[i] == static_cast<float>(10 * mean[i])) << i;
}

}  // namespace
}  // namespace paceline::compress::random_k_claims
