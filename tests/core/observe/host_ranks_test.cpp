#include "paceline/core/observe/host_ranks.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

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
    job.report_stages("0,2", std::chrono::milliseconds(2), std::chrono::milliseconds(3));
    const auto found = own();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_STREQ(found[0].status.stages.numbers.data(), "0,2");
    EXPECT_EQ(found[0].status.stages.idle_ns, 2'000'000);
    EXPECT_EQ(found[0].status.stages.compute_ns, 3'000'000);
    EXPECT_EQ(found[0].status.step, 7);
    EXPECT_EQ(found[0].status.samples, 448);
    EXPECT_EQ(found[0].status.world_size, 1);
    EXPECT_GT(found[0].memory_bytes, 0);
    EXPECT_GE(found[0].cpu_seconds, 0);
  });
  EXPECT_TRUE(own().empty());
}

TEST(RanksOnThisHost, AForkIsNotARankOfItsOwn) {
  test::run_ranks(1, [](Job& job) {
    job.report(1, 1, 1);
    // Process numbers start again from the lowest at some time; here at once, if the system permits
    // it.
    std::ofstream("/proc/sys/kernel/ns_last_pid") << 300;
    const pid_t fork_of_ours = ::fork();
    if (fork_of_ours == 0) {
      ::pause();
      ::_exit(0);
    }
    const auto count = [&](int pid) {
      return std::ranges::count_if(ranks_on_this_host("local"),
                                   [&](const HostRank& r) { return r.pid == pid; });
    };
    EXPECT_EQ(count(fork_of_ours), 0);
    EXPECT_EQ(count(::getpid()), 1);
    ::kill(fork_of_ours, SIGKILL);
    ::waitpid(fork_of_ours, nullptr, 0);
  });
}

}  // namespace
}  // namespace paceline::observe
