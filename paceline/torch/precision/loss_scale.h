// LossScale: the factor by which a loss is multiplied, so that its small gradients are not 0 in
// fp16. It halves when gradients overflow and doubles after a number of good steps in a row.
#pragma once

#include <algorithm>
#include <cstdint>

namespace paceline::precision {

class LossScale {
 public:
  // `scale`, `floor`: powers of two; it never falls below the floor. `interval`: good steps, at
  // least 1.
  LossScale(double scale, std::int64_t interval, double floor = 1)
      : scale_(scale), floor_(floor), interval_(interval) {}

  double scale() const { return scale_; }
  double floor() const { return floor_; }
  std::int64_t good_steps() const { return good_; }  // since it changed, or a step was skipped

  // A step has ended, in which no gradient of any rank overflowed, or one did.
  void update(bool has_overflowed) {
    if (has_overflowed) {
      scale_ = std::max(scale_ * 0.5, floor_);
      good_ = 0;
    } else if (++good_ >= interval_) {
      scale_ = std::min(scale_ * 2, kMost);
      good_ = 0;
    }
  }
  void restore(double scale, std::int64_t good_steps) {
    scale_ = std::clamp(scale, floor_, kMost);
    good_ = good_steps;
  }

 private:
  // Gradients that are all zero never overflow; a float must still hold the scale, and 1 over it.
  static constexpr double kMost = 0x1p100;

  double scale_, floor_;
  std::int64_t interval_, good_ = 0;
};

}  // namespace paceline::precision
