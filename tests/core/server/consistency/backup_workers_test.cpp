// Backup workers on a bad network.
// Also covers paceline/core/server/consistency/backup_workers.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/server/machine/partial_world.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

TEST(BackupWorkers, UseTheSameNumberOfOneVersionInEachStepAndRange) {
  int sets_that_differ = 0;
  for (int number = 0; number < worlds_of(100); ++number) {
    const std::uint64_t seed_of = seed(2840000 + static_cast<std::uint64_t>(number));
    PartialWorld world("backup_workers:spare=1", 4, seed_of, drawn_times(seed_of));
    ASSERT_TRUE(world.run()) << "no progress; seed " << number;
    EXPECT_TRUE(world.reads_have_one_version());
    for (std::int64_t step = 0; step < 8; ++step) {
      for (std::size_t range = 0; range < 2; ++range)
        ASSERT_THAT(
            world.shares(range, step),
            testing::UnorderedElementsAre(0, testing::DoubleEq(1. / 3), testing::DoubleEq(1. / 3),
                                          testing::DoubleEq(1. / 3)))
            << "seed " << number << ", step " << step;
      sets_that_differ += world.shares(0, step) != world.shares(1, step);
    }
  }
  EXPECT_TRUE(is_brief() || sets_that_differ > 0) << "a set closes for each range by itself";
}

TEST(BackupWorkers, TooFewWorkersForAStepAreAnErrorForAllThatAreLeft) {
  PartialWorld world("backup_workers:spare=1", 4, 1, drawn_times(1));
  world.table.network.run(200ms);
  for (const int victim : {0, 1}) {
    world.table.gone.insert(victim);
    world.table.network.kill(victim, 200ms);
  }
  EXPECT_FALSE(world.table.run(2s));
  for (const int worker : {2, 3}) {
    const auto failure = world.table.workers.at(worker)->table.failure();
    ASSERT_TRUE(failure);
    EXPECT_THAT(failure->what, testing::HasSubstr("2 workers are left, and a step needs 3"));
  }
}

}  // namespace
}  // namespace paceline::test
