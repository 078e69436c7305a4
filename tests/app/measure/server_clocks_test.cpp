#include "paceline/app/measure/server_clocks.h"

#include <gtest/gtest.h>

namespace paceline::measure {
namespace {

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
