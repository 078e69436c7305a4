// Timeouts on a bad network, in virtual time.
// Also covers paceline/core/server/consistency/timeout.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/core/server/machine/partial_world.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

// Worker 0 is late in each third step.
std::function<machine::Time(int, std::int64_t)> times_with_a_late_worker(std::uint64_t of_seed) {
  return [of_seed](int worker, std::int64_t clock) {
    const machine::Time time = drawn_times(of_seed)(worker + 1, clock) / 5;
    return worker == 0 && clock % 3 == 1 ? 8 * time : time;
  };
}

TEST(Timeout, DropsLatePushesOrUsesEachOnce) {
  for (const char* late : {"drop", "apply_late", "fold_into_next"}) {
    std::uint64_t dropped = 0;
    int closed_early = 0;
    for (int number = 0; number < worlds_of(100); ++number) {
      const std::uint64_t seed_of = seed(2850000 + static_cast<std::uint64_t>(number));
      PartialWorld world(fmt::format("timeout:milliseconds=20,late={}", late), 3, seed_of,
                         times_with_a_late_worker(seed_of));
      ASSERT_TRUE(world.run()) << "no progress; seed " << number;
      EXPECT_TRUE(world.reads_have_one_version());
      for (const TableRead& read : world.training.reads) {
        if (read.clock >= world.training.steps) continue;
        for (std::size_t range = 0; range < 2; ++range) {
          const double share =
              world.shares(range, read.clock)[static_cast<std::size_t>(read.worker)];
          closed_early += share > 0.34;
          if (std::string_view(late) == "apply_late") {
            EXPECT_GT(share, 0) << "seed " << number;
          }
        }
      }
      for (const auto& [member, worker] : world.table.workers) dropped += worker->dropped();
    }
    EXPECT_GT(closed_early, 0) << "steps close without late workers";
    EXPECT_EQ(dropped > 0, std::string_view(late) == "drop") << late;
  }
}

TEST(Timeout, AQuorumIsWaitedForHoweverLongItTakes) {
  for (int number = 0; number < worlds_of(100); ++number) {
    const std::uint64_t seed_of = seed(2860000 + static_cast<std::uint64_t>(number));
    PartialWorld world("timeout:milliseconds=1,quorum=2", 3, seed_of, drawn_times(seed_of));
    ASSERT_TRUE(world.run()) << "no progress; seed " << number;
    for (std::int64_t step = 0; step < 8; ++step)
      for (const double share : world.shares(0, step))
        ASSERT_TRUE(share == 0 || (share > 0.33 && share <= 0.5)) << "seed " << number;
  }
}

}  // namespace
}  // namespace paceline::test
