#include "paceline/core/quasi_newton/wolfe_search.h"

#include <algorithm>
#include <cmath>

namespace paceline::quasi_newton {
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

}  // namespace

WolfeSearch::WolfeSearch(const LinePoint& start, double first, const WolfeOptions& options)
    : start_(start), options_(options), result_{start}, before_(start) {
  if (start_.slope < 0 && options_.max_evaluations > 0) step_ = first;
}

void WolfeSearch::take(const LinePoint& point) {
  ++result_.evaluations;
  result_.point = point;
  zooms_ ? narrow(point) : bracket(point);
  if (result_.evaluations >= options_.max_evaluations) step_.reset();
}

bool WolfeSearch::is_too_high(const LinePoint& point) const {
  return !std::isfinite(point.value) ||
         point.value > start_.value + options_.sufficient_decrease * point.step * start_.slope;
}

bool WolfeSearch::is_flat(const LinePoint& point) const {
  return std::fabs(point.slope) <= -options_.curvature * start_.slope;
}

void WolfeSearch::found() {
  result_.found = true;
  step_.reset();
}

void WolfeSearch::bracket(const LinePoint& now) {
  const bool is_first = result_.evaluations == 1;
  if (is_too_high(now) || (!is_first && now.value >= before_.value)) return zoom(before_, now);
  if (is_flat(now)) return found();
  if (now.slope >= 0) return zoom(now, before_);
  before_ = now;
  step_ = 2 * now.step;
}

void WolfeSearch::zoom(LinePoint low, LinePoint high) {
  zooms_ = true;
  low_ = low;
  high_ = high;
  step_ = between(low_, high_);
}

void WolfeSearch::narrow(const LinePoint& now) {
  if (is_too_high(now) || now.value >= low_.value) return zoom(low_, now);
  if (is_flat(now)) return found();
  const bool turns = now.slope * (high_.step - low_.step) >= 0;
  zoom(now, turns ? low_ : high_);
}

WolfeResult wolfe_search(const std::function<LinePoint(double step)>& evaluate,
                         const LinePoint& start, double first, const WolfeOptions& options) {
  WolfeSearch search(start, first, options);
  while (const auto step = search.step()) search.take(evaluate(*step));
  return search.result();
}

}  // namespace paceline::quasi_newton
