// Detects that steps take another time than they did when their schedule was made.
#pragma once

#include <cstddef>
#include <vector>

namespace paceline::schedule {

// Compares the last steps with the first ones after the schedule was made, by medians, so that a
// few odd steps change nothing.
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

}  // namespace paceline::schedule
