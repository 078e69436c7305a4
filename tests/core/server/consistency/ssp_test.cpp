// The rules of stale synchronous parallel on a bad network, by marks: what each read contains.
// Also covers paceline/core/server/consistency/ssp.cpp,
// paceline/core/server/machine/range_value.cpp, paceline/core/server/machine/range_machine.cpp and
// paceline/core/server/machine/worker_machine.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/server/machine/ssp_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

TEST(Ssp, ReadsMissNoNeededUpdateAndShowNoneTooNewAndOwnOnesOnce) {
  const int seeds = worlds_of(250);
  for (const std::int64_t staleness : {0, 1, 2, 3}) {
    std::int64_t newest = INT64_MIN, apart = 0;
    for (int number = 0; number < seeds; ++number) {
      SspWorld world(staleness, seed(2710000 + static_cast<std::uint64_t>(number)));
      ASSERT_TRUE(world.table.run()) << "no progress; seed " << number;
      ASSERT_EQ(world.complaint(), "") << "seed " << number << ", staleness " << staleness;
      newest = std::max(newest, world.newest);
      apart = std::max(apart, world.training.most_apart);
    }
    EXPECT_LE(newest, staleness - 1);
    EXPECT_LE(apart, staleness + 1);
    if (!is_brief()) {
      EXPECT_EQ(newest, staleness - 1) << "it is reached";
      EXPECT_EQ(apart, staleness + 1) << "it is reached";
    }
  }
}

TEST(Ssp, ShowsUpdatesOneClockNewerOnArrival) {
  std::int64_t newest = INT64_MIN;
  for (int number = 0; number < worlds_of(100); ++number) {
    SspWorld world(2, seed(2720000 + static_cast<std::uint64_t>(number)), ",best_effort=on");
    ASSERT_TRUE(world.table.run());
    ASSERT_EQ(world.complaint(), "") << "seed " << number;
    newest = std::max(newest, world.newest);
  }
  EXPECT_EQ(newest, 2);
}

TEST(Ssp, WorkersLeaveAndJoinAndAreLostAtAnyMoment) {
  int joined = 0;
  for (int number = 0; number < worlds_of(1000); ++number) {
    const std::int64_t staleness = number % 4;
    SspWorld world(staleness, seed(2730000 + static_cast<std::uint64_t>(number)), "", 12);
    world.churn(1 + number % 2);
    ASSERT_TRUE(world.table.run()) << "no progress; seed " << number;
    ASSERT_EQ(world.complaint(), "") << "seed " << number;
    ASSERT_LE(world.training.most_apart, staleness + 1) << "seed " << number;
    joined += static_cast<int>(world.table.workers.size()) - 3;
  }
  EXPECT_GT(joined, 0);
}

TEST(Ssp, IfTheFirstValuesAreLostWithTheirWorkerAllOthersAreTold) {
  SspWorld world(1, seed(2760000));
  world.table.network.run(500us);  // nothing has arrived
  world.table.gone.insert(0);
  world.table.network.kill(0, world.table.network.now());
  world.table.network.run(1s);
  for (const int worker : {1, 2}) {
    const auto failure = world.table.workers.at(worker)->table.failure();
    ASSERT_TRUE(failure);
    EXPECT_THAT(failure->what,
                testing::HasSubstr("table 'marks': worker 0 has ended before it gave"));
  }
}

TEST(Ssp, AServerHoldsAtMostAWindowOfPushesOfAWorker) {
  std::size_t most = 0;
  for (int number = 0; number < worlds_of(100); ++number) {
    SspWorld world(std::nullopt, seed(2750000 + static_cast<std::uint64_t>(number)));
    ASSERT_TRUE(world.table.run());
    for (std::size_t range = 0; range < 2; ++range)
      most = std::max(most, world.table.range(range).most_held());
  }
  EXPECT_LE(most, static_cast<std::size_t>(server::kWindow));
  EXPECT_GE(most, 2u) << "pushes overtake others";
}

}  // namespace
}  // namespace paceline::test
