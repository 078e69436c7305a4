#include "paceline/core/observe/perfetto_trace.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace paceline::observe {
namespace {

// Two ranks, where rank 1's clock is ahead of rank 0's by so much.
std::string drawn(std::int64_t ahead) {
  return perfetto_trace(std::vector<RankTrace>{
      {0, "a", 0, {{TraceLane::training, "step", 1000, 9000}}, 0},
      {1, "b", ahead, {{TraceLane::waiting, "all_reduce", ahead + 500, ahead + 2750}}, 0}});
}

TEST(PerfettoTrace, IsTheSameWhateverARanksClockSays) {
  const std::string one_clock = drawn(0);
  EXPECT_NE(one_clock.find("all_reduce"), std::string::npos);
  for (const std::int64_t ahead : {std::int64_t{1'000'000'000}, std::int64_t{-77}})
    EXPECT_EQ(drawn(ahead), one_clock) << ahead;
}

}  // namespace
}  // namespace paceline::observe
