// Asynchronous parallel on a bad network, by marks, and how far it is stable in round robin.
// Also covers paceline/core/server/consistency/asp.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/core/server/machine/round_robin_world.h"
#include "tests/core/server/machine/ssp_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

TEST(Asp, EveryUpdateCountsOnceWhateverTheNetworkDoes) {
  for (int number = 0; number < worlds_of(250); ++number) {
    SspWorld world(std::nullopt, seed(2740000 + static_cast<std::uint64_t>(number)));
    if (number % 2 == 0) world.churn(1);
    ASSERT_TRUE(world.table.run()) << "no progress; seed " << number;
    ASSERT_EQ(world.complaint(), "") << "seed " << number;
  }
}

TEST(Asp, InRoundRobinEachPushButTheFirstOnesHasMissedThoseOfAllOthers) {
  for (int workers = 1; workers <= 8; ++workers) {
    RoundRobinWorld world = parabola("asp", workers, 0.1, 10);
    ASSERT_TRUE(world.run());
    std::map<std::uint64_t, std::uint64_t> expected;
    for (int worker = 0; worker < workers; ++worker) ++expected[static_cast<unsigned>(worker)];
    expected[static_cast<unsigned>(workers - 1)] += static_cast<unsigned>(9 * workers);
    EXPECT_EQ(world.staleness(), expected) << workers << " workers";
  }
}

// The largest value of the last 64 pushes, from the first one that is below 1e-3 or above 1e3.
double envelope_at_end(int workers, double eta) {
  RoundRobinWorld world = parabola("asp", workers, eta, 9000 / workers);
  std::vector<double> last(64, 1);
  std::size_t pushes = 0;
  double envelope = 1;
  world.training.keeps_reads = false;
  world.training.is_over = [&](const TableRead& read) {
    last[pushes++ % last.size()] = std::abs(read.values[0]);
    if (envelope > 1e-3 && envelope < 1e3) envelope = *std::ranges::max_element(last);
    return envelope <= 1e-3 || envelope >= 1e3;
  };
  EXPECT_TRUE(world.run());
  return envelope;
}

TEST(Asp, IsStableInRoundRobinUpToTheLimitOfItsDelay) {
  for (int workers = 1; workers <= 8; ++workers) {
    if (is_brief() && workers != 4) continue;
    const double limit = 2 * std::sin(std::numbers::pi / (2 * (2 * workers - 1)));
    EXPECT_LE(envelope_at_end(workers, 0.99 * limit), 1e-3) << workers << " workers";
    EXPECT_GE(envelope_at_end(workers, 1.01 * limit), 1e3) << workers << " workers";
  }
}

}  // namespace
}  // namespace paceline::test
