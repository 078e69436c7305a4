#include "paceline/core/schedule/adapt/step_times.h"

#include <gtest/gtest.h>

namespace paceline::schedule {
namespace {

// The trial of two plans whose steps take so long; the step that begins a plan takes much longer,
// and so does one of each.
PathTrial trial_of(double first, double second) {
  PathTrial trial;
  for (const double seconds : {first, second}) {
    EXPECT_FALSE(trial.is_over());
    EXPECT_FALSE(trial.took(100));
    for (std::size_t step = 1; step < PathTrial::kSteps; ++step)
      EXPECT_FALSE(trial.took(step == 5 ? 50 : seconds));
    EXPECT_TRUE(trial.took(seconds)) << "the plan has had its steps";
  }
  return trial;
}

TEST(PathTrial, TakesThePlanWithTheShorterStepsWhateverAFewOddOnesTook) {
  for (const auto& [first, second] : {std::pair(1.0, 1.01), std::pair(1.0, 0.99)}) {
    const PathTrial trial = trial_of(first, second);
    EXPECT_TRUE(trial.is_over());
    EXPECT_EQ(trial.first_seconds(), first);
    EXPECT_EQ(trial.second_seconds(), second);
    EXPECT_EQ(trial.is_second_faster(), second < first);
  }
}

TEST(PathTrial, StaysWithTheFirstPlanWhereBothTakeTheSame) {
  EXPECT_FALSE(trial_of(1, 1).is_second_faster());
}

TEST(PathTrial, IsNeededWhereForecastsDifferByLessThanATwentieth) {
  for (const double scale : {1e-6, 1.0, 1e3}) {
    EXPECT_TRUE(PathTrial::is_needed(scale, 1.049 * scale));
    EXPECT_TRUE(PathTrial::is_needed(1.049 * scale, scale));
    EXPECT_FALSE(PathTrial::is_needed(scale, 1.051 * scale));
    EXPECT_FALSE(PathTrial::is_needed(1.051 * scale, scale));
  }
}

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
