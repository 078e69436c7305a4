// LossScale: the factor by which a loss is multiplied, so that its small gradients are not 0 in
// fp16. It halves when gradients overflow and doubles after a number of good steps in a row.
#pragma once

#include <cstdint>

namespace paceline::precision {

class LossScale {
 public:
  // `scale`: a power of two. `interval`: good steps, at least 1.
  LossScale(double scale, std::int64_t interval) : scale_(scale), interval_(interval) {}

  double scale() const { return scale_; }
  std::int64_t good_steps() const { return good_; }  // since it changed, or a step was skipped

  // A step has ended, in which no gradient of any rank overflowed, or one did.
  void update(bool has_overflowed) {
    if (has_overflowed) {
      scale_ *= 0.5;
      good_ = 0;
    } else if (++good_ == interval_) {
      scale_ *= 2;
      good_ = 0;
    }
  }
  void restore(double scale, std::int64_t good_steps) {
    scale_ = scale;
    good_ = good_steps;
  }

 private:
  double scale_;
  std::int64_t interval_, good_ = 0;
};

}  // namespace paceline::precision
