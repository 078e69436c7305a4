// PathTrial: which of two plans is faster, tried in a training, one after the other for some steps
// each. It decides where their forecasts differ by less than forecasts are wrong by.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace paceline::schedule {

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

}  // namespace paceline::schedule
