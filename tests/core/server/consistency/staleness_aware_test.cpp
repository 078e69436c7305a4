// Rates that fall with the staleness of a push: how fast workers in round robin come to the
// minimum, and how stale the pushes of softsync are.
// Also covers paceline/core/server/consistency/staleness_aware.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/server/machine/quadratic_world.h"
#include "tests/core/server/machine/round_robin_world.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

double radius_of(const std::string& synchrony, int workers) {
  RoundRobinWorld world = parabola(synchrony, workers, 1, 100);
  EXPECT_TRUE(world.run());
  return radius_at_end(world.path());
}

TEST(StalenessAware, ComesToTheMinimumWithTheRadiiOfItsRates) {
  struct Row {
    int staleness;
    double damped, paper;
  };
  for (const Row& row :
       {Row{1, .7071, 1}, Row{3, .8889, .9432}, Row{7, .9532, .9654}, Row{15, .9784, .9812}}) {
    EXPECT_NEAR(radius_of("staleness_aware", row.staleness + 1), row.damped, 1e-3);
    EXPECT_NEAR(radius_of("staleness_aware:rate=paper", row.staleness + 1), row.paper, 1e-3);
    if (row.staleness > 1) {
      EXPECT_GT(radius_of("asp", row.staleness + 1), 1.05);
    }
  }
}

TEST(StalenessAware, HasTheBitsOfAspWhereNothingIsStale) {
  for (const char* rule : {"sgd:rate=0.1,momentum=0.9", "adam:rate=0.1", "adagrad"}) {
    for (int number = 0; number < worlds_of(10); ++number) {
      const auto trained = [&](const char* synchrony, int workers) {
        QuadraticWorld world(synchrony, rule, Dtype::f32, workers, 2,
                             seed(3010000 + static_cast<std::uint64_t>(number)), kBadWeather, 12);
        EXPECT_TRUE(world.table.run());
        return world.table.held();
      };
      const auto asp = trained("asp", 1);
      EXPECT_EQ(trained("staleness_aware", 1), asp) << rule;
      EXPECT_EQ(trained("staleness_aware:rate=paper", 1), asp) << rule;
      EXPECT_EQ(trained("staleness_aware:softsync=1", 1), asp) << rule;
      EXPECT_NE(trained("staleness_aware", 4), trained("asp", 4)) << rule;
    }
  }
}

TEST(StalenessAware, ByThePaperOneMissedVersionCostsNothing) {
  const auto path = [](const std::string& synchrony) {
    RoundRobinWorld world = parabola(synchrony, 2, 0.3, 50);
    EXPECT_TRUE(world.run());
    return world.path();
  };
  EXPECT_EQ(path("staleness_aware:rate=paper"), path("asp"));
  EXPECT_NE(path("staleness_aware"), path("asp"));
}

// Workers that go on at once, and compute for times that are drawn anew each time.
TEST(StalenessAware, PushesOfSoftsyncMissTheStepsOfAllOthersInTheMean) {
  constexpr std::int64_t kWorkers = 30, kPushes = 6001;
  for (const std::int64_t steps : {1, 5, 15, 30}) {
    const std::uint64_t seed_of = seed(3020000 + static_cast<std::uint64_t>(steps));
    RoundRobinWorld world =
        parabola(fmt::format("staleness_aware:softsync={}", steps), kWorkers, 0.01, kPushes);
    world.training.computes = [=](int worker, std::int64_t clock) {
      SeededNumbers numbers(
          mix(mix(seed_of, static_cast<std::uint64_t>(worker)), static_cast<std::uint64_t>(clock)));
      return machine::Time(static_cast<machine::Time::rep>(-std::log(1 - numbers.unit()) * 1e9));
    };
    std::int64_t pushed = 0;
    world.training.keeps_reads = false;
    world.training.is_over = [&](const TableRead&) { return pushed++ >= kPushes; };
    world.training.quiesces = true;
    ASSERT_TRUE(world.run());
    double pushes = 0, missed = 0;
    for (const auto& [staleness, count] : world.staleness()) {
      pushes += static_cast<double>(count);
      missed += static_cast<double>(staleness * count);
    }
    EXPECT_EQ(pushes, kPushes) << "each is in the values";
    const double expected =
        static_cast<double>(kWorkers - 1) / static_cast<double>(kWorkers / steps);
    EXPECT_NEAR(missed / pushes, expected, 0.02 * expected) << "softsync=" << steps;
  }
}

}  // namespace
}  // namespace paceline::test
