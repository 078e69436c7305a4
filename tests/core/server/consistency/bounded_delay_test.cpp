// Bounded delay on a bad network: views, bits of an exact delay, and how far it is stable.
// Also covers paceline/core/server/consistency/bounded_delay.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>

#include "tests/core/server/machine/quadratic_world.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

TEST(BoundedDelay, BoundedDelayReadsVersionsWithinItsBoundAndReachesIt) {
  for (int steps = 0; steps <= 3; ++steps) {
    std::int64_t apart = 0;
    std::size_t open = 0;
    for (int number = 0; number < worlds_of(40); ++number) {
      QuadraticWorld world(fmt::format("bounded_delay:steps={}", steps), "sgd", Dtype::f64, 3, 2,
                           seed(2820000 + static_cast<std::uint64_t>(number)));
      ASSERT_TRUE(world.table.run()) << "no progress; seed " << number;
      for (const TableRead& read : world.training.reads) {
        for (const std::int64_t version : read.row_clocks) {
          ASSERT_GE(version, read.clock - steps);
          ASSERT_LE(version, read.clock);
        }
      }
      apart = std::max(apart, world.training.most_apart);
      for (std::size_t range = 0; range < world.table.shape.ranges.size(); ++range)
        open = std::max(open, world.table.range(range).most_open_steps());
    }
    EXPECT_LE(apart, steps + 1);
    EXPECT_LE(open, static_cast<std::size_t>(steps + 1));
    if (!is_brief()) {
      EXPECT_EQ(apart, steps + 1) << "it is reached";
      EXPECT_EQ(open, static_cast<std::size_t>(steps + 1)) << "it is reached";
    }
  }
}

TEST(BoundedDelay, ExactDelayHasTheBitsOfALoopWithThatDelay) {
  for (int number = 0; number < worlds_of(40); ++number) {
    const std::uint64_t seed_of = seed(2830000 + static_cast<std::uint64_t>(number));
    const int workers = 1 + number % 4, steps = number % 5;
    QuadraticWorld world(fmt::format("bounded_delay:steps={},exact=on", steps), "sgd:rate=0.2",
                         Dtype::f64, workers, 2, seed_of, kBadWeather, 12);
    ASSERT_TRUE(world.table.run()) << "no progress; seed " << number;
    ASSERT_EQ(world.table.held(), QuadraticWorld::serial<double>(seed_of, workers, 12, 0.2, steps));
  }
}

// x <- x - rate x(steps ago) is stable below the limit, and grows above it.
class Delayed {
 public:
  Delayed(int delay, double rate)
      : training_{.steps = 9000,
                  .first = {1},
                  .update = [](int, std::int64_t,
                               std::span<const double> x) { return std::vector<double>{x[0]}; },
                  .computes = [](int, std::int64_t) { return machine::Time(1ms); },
                  .keeps_reads = false,
                  .is_over = [this](const TableRead& read) { return is_decided(read); }},
        table_({.name = "x",
                .elements = 1,
                .dtype = Dtype::f64,
                .synchrony = fmt::format("bounded_delay:steps={},exact=on", delay),
                .rule = fmt::format("sgd:rate={}", rate)},
               1, 1, training_, {.least_delay = 10us, .most_delay = 100us}, 1) {
    EXPECT_TRUE(table_.run(1000s));
  }
  bool has_grown() const { return highest_ >= 1000; }
  bool has_shrunk() const { return lowest_ <= 1e-3; }

 private:
  // The envelope of the oscillation: the largest value of the last 64 steps.
  bool is_decided(const TableRead& read) {
    last_[static_cast<std::size_t>(read.clock % 64)] = std::abs(read.values[0]);
    const double envelope = *std::ranges::max_element(last_);
    highest_ = std::max(highest_, envelope);
    if (read.clock >= 64) lowest_ = std::min(lowest_, envelope);
    return has_grown() || has_shrunk();
  }

  std::array<double, 64> last_ = {};
  double highest_ = 0, lowest_ = 1;
  TableTraining training_;
  VirtualTable table_;
};

TEST(BoundedDelay, ExactDelayIsStableUpToTheLimitOfItsDelay) {
  for (int delay = 0; delay <= 7; ++delay) {
    if (is_brief() && delay != 3) continue;
    const double limit = 2 * std::sin(std::numbers::pi / (2 * (2 * delay + 1)));
    const Delayed below(delay, 0.99 * limit), above(delay, 1.01 * limit);
    EXPECT_TRUE(below.has_shrunk() && !below.has_grown()) << "delay " << delay;
    EXPECT_TRUE(above.has_grown() && !above.has_shrunk()) << "delay " << delay;
  }
}

}  // namespace
}  // namespace paceline::test
