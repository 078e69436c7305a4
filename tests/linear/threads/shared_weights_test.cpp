#include "paceline/linear/threads/shared_weights.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "paceline/linear/threads/team.h"

namespace paceline::linear {
namespace {

TEST(SharedWeights, FetchAddLosesNothing) {
  constexpr int kThreads = 4, kTimes = 500'000;  // so long that the threads run at the same time
  std::vector<double> values(4);
  run_team(kThreads, [&](int) {
    for (int time = 0; time < kTimes; ++time)
      for (std::size_t j = 0; j < values.size(); ++j) FetchAddWeights{values}.add(j, 1);
  });
  EXPECT_EQ(values, std::vector<double>(4, kThreads * kTimes));
}

TEST(SharedWeights, RacyAdditionsAreLostOrWholeAndOneThreadLosesNone) {
  constexpr int kThreads = 4, kTimes = 5000;
  std::vector<double> values(4);
  run_team(kThreads, [&](int) {
    for (int time = 0; time < kTimes; ++time)
      for (std::size_t j = 0; j < values.size(); ++j) RacyWeights{values}.add(j, 1);
  });
  for (const double value : values) {
    EXPECT_EQ(value, static_cast<int>(value)) << "a sum of ones";
    EXPECT_LE(value, kThreads * kTimes);
    EXPECT_GE(value, 1);
  }
  std::vector<double> alone(1);
  for (int time = 0; time < kTimes; ++time) RacyWeights{alone}.add(0, 1);
  EXPECT_EQ(alone[0], kTimes);
}

TEST(Team, RunsEachNumberOnceAtTheSameTime) {
  constexpr int kThreads = 5;
  std::vector<std::atomic<int>> times(kThreads);
  std::atomic<int> here = 0;
  run_team(kThreads, [&](int thread) {
    ++times[static_cast<std::size_t>(thread)];
    ++here;
    here.notify_all();
    for (int seen = here; seen < kThreads; seen = here) here.wait(seen);  // for all others
  });
  for (const auto& one : times) EXPECT_EQ(one, 1);
}

}  // namespace
}  // namespace paceline::linear
