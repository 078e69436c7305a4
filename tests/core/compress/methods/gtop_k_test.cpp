// Also covers paceline/core/compress/payload/sparse.h.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "paceline/core/base/seed.h"
#include "tests/support/averaging_run.h"
#include "tests/support/seed.h"

namespace paceline::compress::gtop_k_claims {
namespace {

using test::AveragingRun;
using test::Gradients;
using test::mean_of;
using test::run_of;

Gradients whole_numbers(int ranks, std::size_t elements, SeededNumbers& numbers) {
  Gradients gradients(static_cast<std::size_t>(ranks), std::vector<float>(elements));
  for (auto& gradient : gradients)
    for (float& value : gradient) value = static_cast<float>(numbers.below(199)) - 99;
  return gradients;
}

// The sum over the ranks of gradient + residual before a step, less the root's sum and the
// residuals after it. Results are read as sums: exact where the ranks' number divides nothing away.
double mass_lost(AveragingRun& run, int ranks, const Gradients& gradients, std::uint32_t step) {
  const std::size_t n = gradients.front().size();
  std::vector<double> mass(n);
  for (int r = 0; r < ranks; ++r) {
    const auto before = run.values(r, "residual");
    for (std::size_t i = 0; i < n; ++i)
      mass[i] += gradients[static_cast<std::size_t>(r)][i] + before[i];
  }
  const auto result = run.step(gradients, step).means.front();
  double lost = 0;
  for (std::size_t i = 0; i < n; ++i) {
    mass[i] -= std::round(static_cast<double>(result[i]) * ranks);
    for (int r = 0; r < ranks; ++r) mass[i] -= run.values(r, "residual")[i];
    lost += std::abs(mass[i]);
  }
  return lost;
}

TEST(GlobalTopK, LosesNothingOnAnyNumberOfRanks) {
  SeededNumbers numbers(test::seed(6));
  for (int ranks = 1; ranks <= 17; ++ranks) {
    for (const auto& [elements, ratio] : {std::pair{1, 1.0}, {50, 0.1}, {400, 0.05}}) {
      SCOPED_TRACE(fmt::format("{} ranks, {} elements", ranks, elements));
      const auto n = static_cast<std::size_t>(elements);
      AveragingRun run = run_of(fmt::format("gtop_k:ratio={}", ratio), ranks, 1, n);
      for (std::uint32_t step = 0; step < 3; ++step)
        ASSERT_EQ(mass_lost(run, ranks, whole_numbers(ranks, n, numbers), step), 0);
    }
  }
}

TEST(GlobalTopK, AsThePaperHasItLosesWhatMergesDrop) {
  SeededNumbers numbers(test::seed(6));
  AveragingRun run = run_of("gtop_k:ratio=0.1,mode=paper", 8, 1, 50);
  double lost = 0;
  for (std::uint32_t step = 0; step < 3; ++step)
    lost += mass_lost(run, 8, whole_numbers(8, 50, numbers), step);
  EXPECT_GT(lost, 0);
}

TEST(GlobalTopK, ConservesOverManySteps) {
  AveragingRun run = run_of("gtop_k:ratio=0.05", 4, 1, 1003);
  EXPECT_EQ(lost_over(40, run, 4, 1003, test::mean_state(4)), 0);
}

TEST(GlobalTopK, TakesALogarithmOfRoundsWithMessagesOfOneLength) {
  for (unsigned ranks = 2; ranks <= 17; ++ranks) {
    AveragingRun run = run_of("gtop_k:ratio=0.05", static_cast<int>(ranks), 1, 1003);
    run.step(test::gradients_of(static_cast<int>(ranks), 1003, 1), 1);
    std::vector<Exchange::Kind> expected(static_cast<std::size_t>(std::bit_width(ranks - 1)),
                                         Exchange::Kind::swap);
    expected.push_back(Exchange::Kind::broadcast);
    EXPECT_EQ(run.kinds, expected);
    EXPECT_EQ(run.payload_bytes, 2 * (ranks - 1) * 8 * 51u) << "each rank but one up, then back";
  }
}

TEST(GlobalTopK, ThatHoldsTheWholeUnionIsTheMean) {
  Gradients gradients(6, std::vector<float>(40));
  for (std::size_t rank = 0; rank < 6; ++rank)
    for (std::size_t i = rank; i < rank + 3; ++i) gradients[rank][i] = static_cast<float>(rank + 1);
  AveragingRun run = run_of("gtop_k:ratio=0.5", 6, 1, 40);
  const auto mean = mean_of(gradients);
  const auto result = run.step(gradients, 0).means.front();
  for (std::size_t i = 0; i < mean.size(); ++i)
    EXPECT_FLOAT_EQ(result[i], static_cast<float>(mean[i]));
}

}  // namespace
}  // namespace paceline::compress::gtop_k_claims
