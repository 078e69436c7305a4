#include "paceline/torch/optimizers/wolfe_search.h"

#include <algorithm>
#include <cmath>

namespace paceline::optimizers {
namespace {

// Returns the step at which the cubic through two points with their slopes is least; the middle if
// that lies outside the inner 80 % of the interval, or nowhere.
double between(const LinePoint& a, const LinePoint& b) {
  const double middle = (a.step + b.step) / 2, width = b.step - a.step;
  const double bend = a.slope + b.slope - 3 * (a.value - b.value) / (a.step - b.step);
  const double root = bend * bend - a.slope * b.slope;
  if (!(root >= 0)) return middle;
  const double d = std::copysign(std::sqrt(root), width);
  const double step = b.step - width * (b.slope + d - bend) / (b.slope - a.slope + 2 * d);
  const double low = std::min(a.step, b.step), high = std::max(a.step, b.step);
  const double margin = 0.1 * (high - low);
  return low + margin < step && step < high - margin ? step : middle;
}

class WolfeSearch {
 public:
  WolfeSearch(const std::function<LinePoint(double)>& evaluate, const LinePoint& start,
              const WolfeOptions& options)
      : evaluate_(evaluate), start_(start), options_(options) {}

  WolfeResult run(double first) {
    if (!(start_.slope < 0)) return {start_};
    LinePoint before = start_;
    double step = first;
    while (may_evaluate()) {
      const LinePoint now = at(step);
      const bool is_first = result_.evaluations == 1;
      if (is_too_high(now) || (!is_first && now.value >= before.value)) return zoom(before, now);
      if (is_flat(now)) return found();
      if (now.slope >= 0) return zoom(now, before);
      before = now;
      step *= 2;
    }
    return result_;
  }

 private:
  bool may_evaluate() const { return result_.evaluations < options_.max_evaluations; }
  LinePoint at(double step) {
    ++result_.evaluations;
    return result_.point = evaluate_(step);
  }
  bool is_too_high(const LinePoint& point) const {
    return !std::isfinite(point.value) ||
           point.value > start_.value + options_.sufficient_decrease * point.step * start_.slope;
  }
  bool is_flat(const LinePoint& point) const {
    return std::fabs(point.slope) <= -options_.curvature * start_.slope;
  }
  WolfeResult found() {
    result_.found = true;
    return result_;
  }

  // `low` has the least value of those with sufficient decrease; a step between the two satisfies
  // both conditions.
  WolfeResult zoom(LinePoint low, LinePoint high) {
    while (may_evaluate()) {
      const LinePoint now = at(between(low, high));
      if (is_too_high(now) || now.value >= low.value) {
        high = now;
        continue;
      }
      if (is_flat(now)) return found();
      if (now.slope * (high.step - low.step) >= 0) high = low;
      low = now;
    }
    return result_;
  }

  const std::function<LinePoint(double)>& evaluate_;
  const LinePoint start_;
  const WolfeOptions options_;
  WolfeResult result_;
};

}  // namespace

WolfeResult wolfe_search(const std::function<LinePoint(double step)>& evaluate,
                         const LinePoint& start, double first, const WolfeOptions& options) {
  return WolfeSearch(evaluate, start, options).run(first);
}

}  // namespace paceline::optimizers
