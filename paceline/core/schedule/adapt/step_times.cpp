#include "paceline/core/schedule/adapt/step_times.h"

#include <cmath>

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

void Drift::begin_anew() {
  steps_ = 0;
  first_.clear();
  last_.clear();
}

void Drift::took(double seconds) {
  if (first_.size() < kWindow) first_.push_back(seconds);
  if (last_.size() < kWindow) last_.push_back(seconds);
  else last_[steps_ % kWindow] = seconds;
  ++steps_;
}

bool Drift::has_drifted() const {
  const double before = median(first_), now = median(last_);
  return std::abs(now - before) > kTolerance * before;
}

}  // namespace paceline::schedule
