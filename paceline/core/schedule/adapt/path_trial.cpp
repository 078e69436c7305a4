#include "paceline/core/schedule/adapt/path_trial.h"

#include <algorithm>

#include "paceline/core/schedule/adapt/median.h"

namespace paceline::schedule {

bool PathTrial::is_needed(double one_forecast, double other_forecast, double too_close) {
  const auto [shorter, longer] = std::minmax(one_forecast, other_forecast);
  return longer - shorter < too_close * shorter;
}

bool PathTrial::took(double seconds) {
  constexpr std::size_t kOfEach = kSteps + 1;
  if (is_over()) return false;
  if (taken_ % kOfEach != 0) seconds_[taken_ / kOfEach].push_back(seconds);
  ++taken_;
  return taken_ % kOfEach == 0;
}

double PathTrial::first_seconds() const {
  return median(seconds_[0]);
}

double PathTrial::second_seconds() const {
  return median(seconds_[1]);
}

}  // namespace paceline::schedule
