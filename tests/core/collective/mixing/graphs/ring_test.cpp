#include <gtest/gtest.h>

#include "paceline/core/collective/mixing/mixing_graph.h"
#include "tests/core/collective/mixing/waves.h"

namespace paceline::collective {
namespace {

TEST(RingGraph, HasTheRateOfItsLongestWave) {
  for (int n = 3; n <= 64; ++n)
    EXPECT_NEAR(mixing_rate(mixing_graph("ring"), n), (1 + 2 * wave(1, 1, n).real()) / 3, 1e-14)
        << n;
}

TEST(RingGraph, HasTheRatesThatItsPagePrints) {
  EXPECT_NEAR(mixing_rate(mixing_graph("ring"), 8), 0.80474, 5e-6);
  EXPECT_NEAR(mixing_rate(mixing_graph("ring"), 16), 0.94925, 5e-6);
  EXPECT_NEAR(mixing_rate(mixing_graph("ring"), 32), 0.98719, 5e-6);
}

TEST(RingGraph, OfTwoRanksTakesTheirMean) {
  EXPECT_EQ(mixing_matrix(mixing_graph("ring"), 2, 0), (std::vector<double>{0.5, 0.5, 0.5, 0.5}));
  EXPECT_NEAR(mixing_rate(mixing_graph("ring"), 2), 0, 1e-15);
}

}  // namespace
}  // namespace paceline::collective
