// Schedules learn from the times of steps which of two plans is faster, and whether a plan has
// become old.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace paceline::schedule {

// PathTrial: which of two plans is faster, tried in a training, one after the other for some steps
// each. It decides where their forecasts differ by less than forecasts are wrong by.
class PathTrial {
 public:
  static constexpr double kTooClose = 0.05;  // of the shorter forecast
  static constexpr std::size_t kSteps = 10;  // of each plan, after one that begins it

  static bool is_needed(double one_forecast, double other_forecast, double too_close = kTooClose);

  // Notes how long a step took: kSteps + 1 steps of the first plan, then as many of the second.
  // Returns true when a plan's last step was noted, so that the other plan's turn begins or the
  // trial is over.
  bool took(double seconds);
  bool is_over() const { return taken_ == 2 * (kSteps + 1); }
  // Medians, so that a few odd steps change nothing. REQUIRES: the plan has had its steps.
  double first_seconds() const;
  double second_seconds() const;
  bool is_second_faster() const { return second_seconds() < first_seconds(); }

 private:
  std::size_t taken_ = 0;
  std::array<std::vector<double>, 2> seconds_;
};

// Detects that steps take another time than they did when their schedule was made: compares the
// last steps with the first ones after the schedule was made, by medians, so that a few odd steps
// change nothing.
class Drift {
 public:
  static constexpr std::size_t kWindow = 10;     // steps
  static constexpr double kTolerance = 0.25;     // of the step's time
  static constexpr std::size_t kLookEvery = 50;  // steps

  void begin_anew();
  void took(double seconds);
  // True after every kLookEvery steps, hence at once on all ranks that counted the same steps.
  bool is_time_to_look() const { return steps_ > 0 && steps_ % kLookEvery == 0; }
  // REQUIRES: is_time_to_look().
  bool has_drifted() const;

 private:
  std::size_t steps_ = 0;
  std::vector<double> first_, last_;  // seconds; `last_` is a ring
};

// The median of step times: a few odd steps do not change it.
// An even number of values has the greater one in the middle. REQUIRES: there are values.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace paceline::schedule
