#include "paceline/core/quasi_newton/two_loop.h"

#include <cmath>
#include <utility>

namespace paceline::quasi_newton {

using Of = TwoLoop::Vector::Of;

bool has_curvature(double sy, double ss, double yy) {
  return sy > 1e-10 * std::sqrt(ss) * std::sqrt(yy);
}

TwoLoop::TwoLoop(std::vector<double> products, std::optional<double> scale)
    : products_(std::move(products)), scale_(scale) {}

TwoLoop::Step TwoLoop::next(double product) {
  const std::size_t pairs = products_.size(), heard = asked_++;
  if (pairs == 0) return {};
  if (heard == 0) return {.product = Vector{Of::move, 0}};
  return heard <= pairs ? descend(heard - 1, product) : climb(2 * pairs - heard, product);
}

// The first loop goes from the newest pair to the oldest one.
TwoLoop::Step TwoLoop::descend(std::size_t age, double product) {
  shares_.push_back(product / products_[age]);
  Step step{.added = Vector{Of::change, age}, .factor = -shares_.back()};
  const bool is_last = age + 1 == products_.size();
  if (is_last) step.scale = scale_;
  step.product = is_last ? Vector{Of::change, age} : Vector{Of::move, age + 1};
  return step;
}

TwoLoop::Step TwoLoop::climb(std::size_t age, double product) {
  Step step{.added = Vector{Of::move, age}, .factor = shares_[age] - product / products_[age]};
  if (age > 0) step.product = Vector{Of::change, age - 1};
  return step;
}

}  // namespace paceline::quasi_newton
