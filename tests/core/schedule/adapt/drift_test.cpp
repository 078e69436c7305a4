#include "paceline/core/schedule/adapt/drift.h"

#include <gtest/gtest.h>

namespace paceline::schedule {
namespace {

// Whether it has drifted by the next look, after `steps` steps of `seconds` seconds.
bool drifts_after(std::size_t steps, double seconds) {
  Drift drift;
  for (std::size_t i = 0; i < Drift::kLookEvery; ++i) drift.took(1);
  EXPECT_TRUE(drift.is_time_to_look());
  EXPECT_FALSE(drift.has_drifted());
  for (std::size_t i = 0; i < Drift::kLookEvery; ++i)
    drift.took(i + steps >= Drift::kLookEvery ? seconds : 1);
  EXPECT_TRUE(drift.is_time_to_look());
  return drift.has_drifted();
}

TEST(Drift, IsAChangeOfMoreThanTheToleranceEitherWay) {
  EXPECT_TRUE(drifts_after(20, 1 + 1.01 * Drift::kTolerance));
  EXPECT_TRUE(drifts_after(20, 1 - 1.01 * Drift::kTolerance));
  EXPECT_FALSE(drifts_after(20, 1 + 0.99 * Drift::kTolerance));
  EXPECT_FALSE(drifts_after(20, 1 - 0.99 * Drift::kTolerance));
}

TEST(Drift, AFewOddStepsAreNone) {
  EXPECT_FALSE(drifts_after(Drift::kWindow / 2 - 1, 100));
  EXPECT_TRUE(drifts_after(Drift::kWindow / 2 + 1, 100));
}

TEST(Drift, ANewScheduleIsHeldAgainstItsOwnFirstSteps) {
  Drift drift;
  for (std::size_t i = 0; i < Drift::kLookEvery; ++i) drift.took(1);
  drift.begin_anew();
  EXPECT_FALSE(drift.is_time_to_look());
  for (std::size_t i = 0; i < 2 * Drift::kLookEvery; ++i) drift.took(2);
  EXPECT_TRUE(drift.is_time_to_look());
  EXPECT_FALSE(drift.has_drifted());
}

}  // namespace
}  // namespace paceline::schedule
