#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/collective/mixing/mixing_graph.h"
#include "tests/core/collective/mixing/waves.h"

namespace paceline::collective {
namespace {

TEST(OnePeerGraph, AveragesExactlyAfterOneRoundForEachDoublingWhereverItBegins) {
  const MixingGraph graph = mixing_graph("one_peer");
  for (const int n : {2, 4, 8, 16, 32, 64}) {
    for (int first = 0; first < graph.rounds(n); ++first) {
      std::vector<double> x(static_cast<std::size_t>(n));
      for (int r = 0; r < n; ++r) x[static_cast<std::size_t>(r)] = r * r;  // sums are exact
      double mean = 0;
      for (const double one : x) mean += one / n;
      for (int round = first; round < first + graph.rounds(n); ++round) {
        std::vector<double> next;
        for (int r = 0; r < n; ++r) {
          const MixingRow row = graph.row(n, round, r);
          next.push_back(row.own * x[static_cast<std::size_t>(r)]);
          for (const MixingTerm& term : row.from)
            next.back() += term.weight * x[static_cast<std::size_t>(term.peer)];
        }
        x = next;
      }
      for (const double one : x) EXPECT_EQ(one, mean) << n;
      EXPECT_NEAR(mixing_rate(graph, n, first), 0, 1e-14) << n;
    }
  }
}

TEST(OnePeerGraph, HasTheRateOfItsSlowestWaveOverAPeriod) {
  for (int n = 2; n <= 64; ++n) {
    double slowest = 0;
    for (int j = 1; j < n; ++j) {
      std::complex<double> product = 1;
      for (int hop = 1; hop < n; hop *= 2) product *= (1.0 + wave(j, hop, n)) / 2.0;
      slowest = std::max(slowest, std::abs(product));
    }
    EXPECT_NEAR(mixing_rate(mixing_graph("one_peer"), n), slowest, 1e-13) << n;
    const bool is_power_of_two = (n & (n - 1)) == 0;
    EXPECT_EQ(slowest < 1e-9, is_power_of_two) << n << ": exact for powers of two alone";
  }
}

}  // namespace
}  // namespace paceline::collective
