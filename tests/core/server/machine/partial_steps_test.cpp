// Steps that close without some workers, by marks: a step is a mean of ones, so the value at a mark
// is its update's share.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/server/machine/marked_updates.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

struct PartialWorld {
  MarkedUpdates marks;
  TableTraining training;
  VirtualTable table;

  PartialWorld(const std::string& synchrony, int workers, std::uint64_t of_seed,
               std::function<machine::Time(int, std::int64_t)> computes)
      : marks{.workers = static_cast<std::size_t>(workers), .clocks = 24},
        training{.steps = 8,
                 .first = std::vector<double>(marks.ranges * marks.block()),
                 .update =
                     [this](int worker, std::int64_t clock, std::span<const double>) {
                       return marks.update(worker, clock, -1);
                     },
                 .computes = std::move(computes)},
        table(marks.spec(synchrony, "sgd:rate=1"), workers, 2, training, kBadWeather, of_seed) {}

  // Returns whether all workers have come to their ends.
  bool run() {
    const bool is_done = table.run();
    held = table.held();
    return is_done;
  }
  std::vector<double> held;  // what the servers hold at the end

  // The shares of the updates with this stamp, by worker.
  std::vector<double> shares(std::size_t range, std::int64_t stamp) const {
    std::vector<double> all;
    for (std::size_t worker = 0; worker < marks.workers; ++worker)
      all.push_back(held[marks.place(range, static_cast<int>(worker), stamp)]);
    return all;
  }
  bool reads_have_one_version() const {
    return std::ranges::all_of(training.reads, [](const TableRead& read) {
      return std::ranges::all_of(read.row_clocks,
                                 [&](std::int64_t clock) { return clock == read.clock; });
    });
  }
};

int seeds_of_partial_steps() {
  return is_nightly() ? 10000 : is_brief() ? 10 : 100;
}

TEST(PartialSteps, BackupWorkersUseTheSameNumberOfOneVersionInEachStepAndRange) {
  int sets_that_differ = 0;
  for (int number = 0; number < seeds_of_partial_steps(); ++number) {
    const std::uint64_t seed_of = seed(2840000 + static_cast<std::uint64_t>(number));
    PartialWorld world("backup_workers:spare=1", 4, seed_of, drawn_times(seed_of));
    ASSERT_TRUE(world.run()) << "no progress; seed " << number;
    EXPECT_TRUE(world.reads_have_one_version());
    for (std::int64_t step = 0; step < 8; ++step) {
      for (std::size_t range = 0; range < 2; ++range)
        ASSERT_THAT(world.shares(range, step),
                    testing::UnorderedElementsAre(0, testing::DoubleEq(1. / 3),
                                                  testing::DoubleEq(1. / 3),
                                                  testing::DoubleEq(1. / 3)))
            << "seed " << number << ", step " << step;
      sets_that_differ += world.shares(0, step) != world.shares(1, step);
    }
  }
  EXPECT_TRUE(is_brief() || sets_that_differ > 0) << "a set closes for each range by itself";
}

// Worker 0 is late in each third step.
std::function<machine::Time(int, std::int64_t)> times_with_a_late_worker(std::uint64_t of_seed) {
  return [of_seed](int worker, std::int64_t clock) {
    const machine::Time time = drawn_times(of_seed)(worker + 1, clock) / 5;
    return worker == 0 && clock % 3 == 1 ? 8 * time : time;
  };
}

TEST(PartialSteps, TimeoutDropsLatePushesOrUsesEachOnce) {
  for (const char* late : {"drop", "apply_late", "fold_into_next"}) {
    std::uint64_t dropped = 0;
    int closed_early = 0;
    for (int number = 0; number < seeds_of_partial_steps(); ++number) {
      const std::uint64_t seed_of = seed(2850000 + static_cast<std::uint64_t>(number));
      PartialWorld world(fmt::format("timeout:milliseconds=20,late={}", late), 3, seed_of,
                         times_with_a_late_worker(seed_of));
      ASSERT_TRUE(world.run()) << "no progress; seed " << number;
      EXPECT_TRUE(world.reads_have_one_version());
      for (const TableRead& read : world.training.reads) {
        if (read.clock >= world.training.steps) continue;
        for (std::size_t range = 0; range < 2; ++range) {
          const double share = world.shares(range, read.clock)[static_cast<std::size_t>(read.worker)];
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

TEST(PartialSteps, AQuorumIsWaitedForHoweverLongItTakes) {
  for (int number = 0; number < seeds_of_partial_steps(); ++number) {
    const std::uint64_t seed_of = seed(2860000 + static_cast<std::uint64_t>(number));
    PartialWorld world("timeout:milliseconds=1,quorum=2", 3, seed_of, drawn_times(seed_of));
    ASSERT_TRUE(world.run()) << "no progress; seed " << number;
    for (std::int64_t step = 0; step < 8; ++step)
      for (const double share : world.shares(0, step))
        ASSERT_TRUE(share == 0 || (share > 0.33 && share <= 0.5)) << "seed " << number;
  }
}

TEST(PartialSteps, WorkersLeaveAndJoinAtAnyMoment) {
  for (const char* synchrony :
       {"bsp", "bounded_delay:steps=2", "timeout:milliseconds=20,late=apply_late"}) {
    for (int number = 0; number < seeds_of_partial_steps(); ++number) {
      SeededNumbers numbers(seed(2870000 + static_cast<std::uint64_t>(number)));
      PartialWorld world(synchrony, 3, numbers.next(), drawn_times(numbers.next()));
      const auto update = world.training.update;
      world.training.update = [&](int worker, std::int64_t clock, std::span<const double> values) {
        return update(worker == 100 ? 0 : worker, clock, values);  // 0 leaves before 100 comes
      };
      world.table.network.run(100ms + machine::Time(numbers.below(200'000'000)));
      world.table.gone.insert(0);
      world.table.network.kill(0, world.table.network.now());
      world.table.network.run(world.table.network.now() + machine::Time(numbers.below(50'000'000)));
      world.table.add_worker(100, true);
      ASSERT_TRUE(world.run()) << synchrony << ": no progress; seed " << number;
    }
  }
}

TEST(PartialSteps, TooFewWorkersForAStepAreAnErrorForAllThatAreLeft) {
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
