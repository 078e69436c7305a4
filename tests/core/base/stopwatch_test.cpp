#include "paceline/core/base/stopwatch.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(Stopwatch, NeverRunsBackwardsAndAScopeAddsNoMoreThanPassed) {
  const Stopwatch all;
  double sum = 0;
  for (int i = 0; i < 100; ++i) {
    const double before = sum;
    { const StopwatchScope scope(sum); }
    EXPECT_GE(sum, before);
  }
  EXPECT_GT(sum, 0);
  EXPECT_LE(sum, all.seconds());
}

TEST(Stopwatch, RestartedBeginsAtZero) {
  Stopwatch watch;
  const Stopwatch older = watch;
  while (older.seconds() < 1e-6) {
  }
  watch.restart();
  const double young = watch.seconds();
  EXPECT_LT(young, older.seconds());
}

}  // namespace
}  // namespace paceline
