// Workers that quiesce at whatever clocks they are: nobody waits for them, all that was pushed is
// applied, and all read the same.
// Also covers paceline/core/server/machine/range_quiesce.cpp and
// paceline/core/server/machine/worker_quiesce.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/server/machine/partial_world.h"
#include "tests/core/server/machine/quadratic_world.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

constexpr const char* kAll[] = {"bsp",
                                "ssp:staleness=0",
                                "ssp:staleness=2",
                                "asp",
                                "staleness_aware",
                                "staleness_aware:softsync=1",
                                "bounded_delay:steps=2",
                                "bounded_delay:steps=2,exact=on",
                                "backup_workers:spare=1",
                                "timeout:milliseconds=20",
                                "timeout:milliseconds=20,late=apply_late",
                                "timeout:milliseconds=20,late=fold_into_next"};

// The reads with which the workers became quiet, by worker.
std::vector<TableRead> last_reads(const TableTraining& training) {
  const auto workers = static_cast<std::ptrdiff_t>(training.clocks.size());
  return {training.reads.end() - workers, training.reads.end()};
}

TEST(Quiesce, WorkersWithAnyNumbersOfStepsComeToTheSameValuesAndClock) {
  for (const char* synchrony : kAll) {
    for (int number = 0; number < worlds_of(40); ++number) {
      SeededNumbers numbers(seed(2980000 + static_cast<std::uint64_t>(number)));
      QuadraticWorld world(synchrony, "adam:rate=0.01", Dtype::f64, 3, 2, numbers.next(),
                           kBadWeather, 40);
      world.training.quiesces = true;
      const std::int64_t ends[] = {static_cast<std::int64_t>(numbers.below(9)),
                                   static_cast<std::int64_t>(numbers.below(9)), 5};
      world.training.is_over = [&](const TableRead& read) {
        return read.clock >= ends[read.worker];
      };
      ASSERT_TRUE(world.table.run()) << synchrony << ": no progress; seed " << number;
      const std::vector<double> held = world.table.held();
      const auto reads = last_reads(world.training);
      for (const TableRead& read : reads) {
        ASSERT_EQ(read.values, held) << synchrony << ", worker " << read.worker << ", " << number;
        ASSERT_EQ(read.clock, reads.front().clock) << synchrony << ", " << number;
        ASSERT_THAT(read.row_clocks, testing::Each(read.clock)) << synchrony << ", " << number;
      }
    }
  }
}

TEST(Quiesce, BeforeFirstValuesIsMisuse) {
  const server::TableShape shape =
      server::shape_of({.name = "w", .elements = 4}, {{0, 1}, {2}}).value();
  server::WorkerMachine worker(shape, 0, {}, 0);
  worker.assign(std::vector<std::byte>(16));
  EXPECT_THROW(worker.quiesce(), Error);
}

// A step of ones is a mean, so the value at a mark is its update's share.
TEST(Quiesce, EveryPushIsInTheValuesThatWereReadWhenAllWereQuiet) {
  for (const char* synchrony :
       {"bsp", "ssp:staleness=2", "asp", "staleness_aware:softsync=1", "bounded_delay:steps=2",
        "timeout:milliseconds=20,late=apply_late"}) {
    for (int number = 0; number < worlds_of(20); ++number) {
      SeededNumbers numbers(seed(2990000 + static_cast<std::uint64_t>(number)));
      PartialWorld world(synchrony, 3, numbers.next(), drawn_times(numbers.next()));
      world.training.quiesces = true;
      // They push 3, 4 and 7 times, so that steps of three pushes leave some over.
      world.training.is_over = [](const TableRead& read) {
        return read.clock >= 3 + read.worker * read.worker;
      };
      ASSERT_TRUE(world.run()) << synchrony << ", " << number;
      for (const TableRead& read : last_reads(world.training)) ASSERT_EQ(read.values, world.held);
      for (const TableRead& read : world.training.reads) {
        if (world.training.is_over(read)) continue;  // every other one was followed by a push
        for (std::size_t range = 0; range < world.marks.ranges; ++range)
          ASSERT_NE(world.shares(range, read.clock)[static_cast<std::size_t>(read.worker)], 0)
              << synchrony << ", worker " << read.worker << " at " << read.clock << ", " << number;
      }
    }
  }
}

}  // namespace
}  // namespace paceline::test
