// Also covers paceline/core/compress/averaging/envelope.h.
#include <gtest/gtest.h>

#include "tests/support/averaging_run.h"

namespace paceline::compress::sign_claims {
namespace {

using test::AveragingRun;
using test::run_of;

const std::size_t kLengths[] = {0, 1, 7, 8, 9, 64, 1003};

std::vector<float> vote(const test::Gradients& gradients) {
  const int ranks = static_cast<int>(gradients.size());
  return run_of("sign", ranks, 1, gradients.front().size()).step(gradients, 1).means.front();
}

TEST(SignVote, IsWhatMostRanksHaveAndPlusInATie) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const std::size_t n : kLengths) {
      test::Gradients gradients = test::gradients_of(ranks, n, n);
      std::vector<float> expected;
      for (std::size_t i = 0; i < n; ++i) {
        int positive = 0;
        for (const auto& gradient : gradients) positive += gradient[i] >= 0 ? 1 : 0;
        expected.push_back(2 * positive >= ranks ? 1.0f : -1.0f);
      }
      ASSERT_EQ(vote(gradients), expected) << ranks << " ranks, " << n << " elements";
      std::ranges::reverse(gradients);
      ASSERT_EQ(vote(gradients), expected) << "in another order";
    }
  }
}

TEST(SignVote, TurnsWithTheGradientsOfAnOddNumberOfRanks) {
  for (const int ranks : {1, 3, 5, 7}) {
    test::Gradients gradients = test::gradients_of(ranks, 1003, 4);
    auto expected = vote(gradients);
    for (auto& gradient : gradients)
      for (float& value : gradient) value = -value;
    for (float& value : expected) value = -value;
    EXPECT_EQ(vote(gradients), expected);
  }
}

TEST(SignVote, SendsTwoBitsForEachElementAndRankInAll) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const std::size_t n : kLengths) {
      AveragingRun run = run_of("sign", ranks, 1, n);
      run.step(test::gradients_of(ranks, n, n), 1);
      EXPECT_EQ(run.payload_bytes, 2 * ((n + 7) / 8) * static_cast<std::size_t>(ranks - 1));
    }
  }
}

TEST(SignVote, HasBothZerosAsPlus) {
  EXPECT_EQ(vote({{0.0f, -0.0f, -1.0f}}), (std::vector<float>{1, 1, -1}));
}

}  // namespace
}  // namespace paceline::compress::sign_claims
