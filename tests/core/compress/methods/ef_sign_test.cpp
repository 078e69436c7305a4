// Also covers paceline/core/compress/averaging/two_stage_average.h.
#include <gtest/gtest.h>

#include "tests/support/averaging_run.h"

namespace paceline::compress::ef_sign_claims {
namespace {

using test::AveragingRun;
using test::run_of;

constexpr std::size_t kElements = 1003;

TEST(ScaledSigns, LoseNoMoreThanRounding) {
  AveragingRun run = run_of("ef_sign", 4, 17, 59);
  EXPECT_LT(lost_over(40, run, 4, kElements, test::mean_state(4)), 1e-5);
}

TEST(ScaledSigns, AreTheMeanOfEachRanksMeanMagnitudeAndSigns) {
  AveragingRun run = run_of("ef_sign", 2, 1, 2);
  EXPECT_EQ(run.step({{3, -1}, {1, 5}}, 0).means.front(), (std::vector<float>{2.5f, 0.5f}));
  EXPECT_EQ(run.values(0, "residual"), (std::vector<float>{1, 1}));
  EXPECT_EQ(run.payload_bytes, 2 * (4 + 1u));
}

// The owners' errors, of all their chunks.
std::vector<double> owners(AveragingRun& run, int ranks) {
  std::vector<double> all;
  for (int rank = 0; rank < ranks; ++rank)
    for (const float value : run.values(rank, "owner_residual")) all.push_back(value);
  return all;
}

TEST(ScaledSignsByOwners, LoseNoMoreThanRoundingWithTheOwnersErrors) {
  for (const int ranks : {1, 3, 4}) {
    AveragingRun run = run_of("ef_sign:path=owners", ranks, 17, 59);
    const auto pending = [ranks](AveragingRun& r) {
      auto sum = test::mean_state(ranks)(r);
      const auto own = owners(r, ranks);
      EXPECT_EQ(own.size(), sum.size());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
      return sum;
    };
    EXPECT_LT(lost_over(40, run, ranks, kElements, pending), 2e-5) << ranks;
  }
}

TEST(ScaledSignsByOwners, SendTwoBitsForEachElementAndTwoScalesForEachPair) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const std::size_t n : {0, 1, 9, 64, 1003}) {
      AveragingRun run = run_of("ef_sign:path=owners", ranks, 1, n);
      run.step(test::gradients_of(ranks, n, 1), 0);
      const auto p = static_cast<std::size_t>(ranks);
      EXPECT_EQ(run.payload_bytes, (2 * ((n + 7) / 8) + 8 * p) * (p - 1)) << p << ", " << n;
    }
  }
}

}  // namespace
}  // namespace paceline::compress::ef_sign_claims
