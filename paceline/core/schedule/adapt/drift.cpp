#include "paceline/core/schedule/adapt/drift.h"

#include <cmath>

#include "paceline/core/schedule/adapt/median.h"

namespace paceline::schedule {

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
