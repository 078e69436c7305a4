#include "paceline/app/measure/clock_forecast.h"

#include <gtest/gtest.h>

namespace paceline::measure {
namespace {

constexpr int kWorkers = 4, kServers = 2;

double time_of_bsp(const std::string& synchrony, const Slowness& slow) {
  ClockOptions options{.pace = 0.02, .slow = slow, .clocks = 200};
  const double bsp = forecast_clocks_per_second(options, kWorkers, kServers);
  options.synchrony = synchrony;
  return bsp / forecast_clocks_per_second(options, kWorkers, kServers);
}

TEST(ClockForecast, WithoutSlowWorkersEveryModelGoesAtThePace) {
  for (const char* synchrony :
       {"bsp", "ssp", "asp", "bounded_delay", "backup_workers", "timeout"}) {
    const ClockOptions options{.synchrony = synchrony, .pace = 0.02};
    EXPECT_NEAR(forecast_clocks_per_second(options, kWorkers, kServers), 50, 0.1) << synchrony;
  }
}

// bsp takes 100 ms a clock. Rates are means over the workers: (3 x 50 + 10) / 4 for asp.
TEST(ClockForecast, AWorkerThatIsAlwaysSlowHasTheClosedForms) {
  const Slowness slow{.rank = 0, .factor = 5};
  EXPECT_NEAR(time_of_bsp("asp", slow), 10.0 / 40, 0.01);
  EXPECT_NEAR(time_of_bsp("backup_workers:spare=1", slow), 0.20, 0.01);
  EXPECT_NEAR(time_of_bsp("timeout:milliseconds=10", slow), 0.30, 0.01);
  EXPECT_NEAR(time_of_bsp("ssp:staleness=3", slow), 1, 0.05) << "it cannot win";
}

TEST(ClockForecast, OneThatIsDrawnEachClockIsBorneByStalenessAndSpares) {
  const Slowness drawn{.factor = 5};
  EXPECT_LT(time_of_bsp("ssp:staleness=3", drawn), 0.6);
  EXPECT_LT(time_of_bsp("backup_workers:spare=1", drawn), 0.65);
}

TEST(Slowness, SlowsOneRankAlwaysOrOneInEachClock) {
  const Slowness fixed{.rank = 1, .factor = 5};
  const Slowness drawn{.factor = 3, .seed = 7};
  std::vector<int> slowed(4);
  for (std::int64_t clock = 0; clock < 400; ++clock) {
    double all = 0;
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(fixed.factor_of(rank, clock, 4), rank == 1 ? 5 : 1);
      all += drawn.factor_of(rank, clock, 4);
      slowed[static_cast<std::size_t>(rank)] += drawn.factor_of(rank, clock, 4) == 3;
    }
    EXPECT_EQ(all, 6) << "one of four takes 3 times as long";
  }
  for (const int times : slowed) EXPECT_NEAR(times, 100, 40);
}

}  // namespace

}  // namespace paceline::measure
