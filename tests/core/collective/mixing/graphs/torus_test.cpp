#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/collective/mixing/mixing_graph.h"
#include "tests/core/collective/mixing/waves.h"

namespace paceline::collective {
namespace {

TEST(TorusGraph, HasTheRateOfTheSlowestWaveOnItsGrid) {
  int grids = 0;
  for (int n = 2; n <= 64; ++n) {
    if (!mixing_graph("torus").check(n)) continue;
    int rows = 1;
    for (int d = 2; d * d <= n; ++d)
      if (n % d == 0) rows = d;
    double slowest = 0;
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < n / rows; ++j)
        if (i + j > 0)
          slowest = std::max(
              slowest,
              std::abs(1 + 2 * wave(i, 1, rows).real() + 2 * wave(j, 1, n / rows).real()) / 5);
    EXPECT_NEAR(mixing_rate(mixing_graph("torus"), n), slowest, 1e-13) << n;
    ++grids;
  }
  EXPECT_EQ(grids, 63 - 18);  // all but the primes up to 64
}

TEST(TorusGraph, HasTheRateOfTheFormulaOnSquaresOfThreeAndMore) {
  for (const int a : {3, 4, 5, 6, 7, 8})
    EXPECT_NEAR(mixing_rate(mixing_graph("torus"), a * a), (3 + 2 * wave(1, 1, a).real()) / 5,
                1e-14);
  EXPECT_NEAR(mixing_rate(mixing_graph("torus"), 16), 0.6, 1e-14);
}

TEST(TorusGraph, OfTwoRowsCountsNeighboursTwice) {
  EXPECT_NEAR(mixing_rate(mixing_graph("torus"), 4), 0.6, 1e-14);
  const MixingRow row = mixing_graph("torus").row(4, 0, 0);
  ASSERT_EQ(row.from.size(), 2u);
  EXPECT_EQ(row.from[0].peer, 1);
  EXPECT_NEAR(row.from[0].weight, 0.4, 1e-15);
  EXPECT_NEAR(row.own, 0.2, 1e-15);
}

}  // namespace
}  // namespace paceline::collective
