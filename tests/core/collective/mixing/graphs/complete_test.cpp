#include <gtest/gtest.h>

#include "paceline/core/collective/mixing/mixing_graph.h"
#include "tests/core/collective/mixing/waves.h"

namespace paceline::collective {
namespace {

TEST(CompleteGraph, IsTheMeanInOneRound) {
  for (int n = 1; n <= 64; ++n) {
    const MixingGraph graph = mixing_graph("complete");
    EXPECT_EQ(graph.rounds(n), 1);
    EXPECT_NEAR(mixing_rate(graph, n), 0, 1e-14) << n;
    for (const double weight : mixing_matrix(graph, n, 0))
      EXPECT_NEAR(weight, 1.0 / n, 1e-15 * n) << n;
  }
}

}  // namespace
}  // namespace paceline::collective
