#include "paceline/core/observe/host_ranks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/local_world.h"

namespace paceline::observe {
namespace {

// Real processes: tests/processes/top_test.cpp.
TEST(RanksOnThisHost, AProcessIsSeenWhileItHasAJobAndNotAfterwards) {
  const auto own = [] {
    std::vector<HostRank> found;
    for (const HostRank& rank : ranks_on_this_host("local")) {
      if (rank.pid == ::getpid()) found.push_back(rank);
    }
    return found;
  };
  test::run_ranks(1, [&](Job& job) {
    job.report(7, 448, 0.25);
    const auto found = own();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].status.step, 7);
    EXPECT_EQ(found[0].status.samples, 448);
    EXPECT_EQ(found[0].status.world_size, 1);
    EXPECT_GT(found[0].memory_bytes, 0);
    EXPECT_GE(found[0].cpu_seconds, 0);
  });
  EXPECT_TRUE(own().empty());
}

}  // namespace
}  // namespace paceline::observe
