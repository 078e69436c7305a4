#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/collective/mixing/mixing_graph.h"
#include "tests/core/collective/mixing/waves.h"

namespace paceline::collective {
namespace {

TEST(ExponentialGraph, HasTheRateOfThePaperForEvenNumbersOfRanksAndLessForOddOnes) {
  for (int n = 2; n <= 64; ++n) {
    int hops = 0;
    while (1 << hops < n) ++hops;
    const double rate = mixing_rate(mixing_graph("exponential"), n);
    const double paper = (hops - 1.0) / (hops + 1.0);
    if (n % 2 == 0) {
      EXPECT_NEAR(rate, paper, 1e-14) << n;
    } else {
      EXPECT_LT(rate, paper - 1e-4) << n;
    }
  }
}

TEST(ExponentialGraph, HasTheRateOfItsSlowestWave) {
  for (int n = 2; n <= 64; ++n) {
    double slowest = 0;
    for (int j = 1; j < n; ++j) {
      std::complex<double> sum = 1;
      int hops = 0;
      for (int hop = 1; hop < n; hop *= 2, ++hops) sum += wave(j, hop, n);
      slowest = std::max(slowest, std::abs(sum) / (hops + 1));
    }
    EXPECT_NEAR(mixing_rate(mixing_graph("exponential"), n), slowest, 1e-13) << n;
  }
}

TEST(ExponentialGraph, HearsOfRanksBeforeItAtPowersOfTwoAlsoForOtherNumbersOfRanks) {
  std::vector<int> peers;
  for (const MixingTerm& term : mixing_graph("exponential").row(6, 0, 1).from)
    peers.push_back(term.peer);
  EXPECT_EQ(peers, (std::vector<int>{0, 3, 5}));  // 1 - 1, 1 - 4 + 6, 1 - 2 + 6
}

}  // namespace
}  // namespace paceline::collective
