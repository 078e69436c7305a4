#include "paceline/core/server/vectors/lbfgs_course.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline::server {
namespace {

using quasi_newton::LinePoint;
using quasi_newton::TwoLoop;

VectorCommand copy(std::uint8_t target, std::uint8_t source) {
  return {.op = VectorOp::copy, .target = target, .source = source};
}
VectorCommand axpy(std::uint8_t target, std::uint8_t source, double factor) {
  return {.op = VectorOp::axpy, .target = target, .source = source, .factor = factor};
}
VectorCommand scaled(std::uint8_t target, double factor) {
  return {.op = VectorOp::scale, .target = target, .factor = factor};
}
VectorCommand dot(std::uint8_t target, std::uint8_t source) {
  return {.op = VectorOp::dot, .target = target, .source = source};
}

}  // namespace

LbfgsCourse::LbfgsCourse(std::int64_t samples, int history, const LbfgsOptions& options)
    : samples_(static_cast<double>(samples)),
      history_(static_cast<std::size_t>(history)),
      options_(options) {}

std::optional<LbfgsCourse::Step> LbfgsCourse::begin() {
  failure_.clear();
  if (!is_somewhere_) {
    ++evaluations_;
    phase_ = Phase::measures_first;
    return Step{.evaluates = true};
  }
  if (largest_gradient_ <= options_.tolerance) return std::nullopt;
  return direct();
}

std::optional<LbfgsCourse::Step> LbfgsCourse::evaluated(double loss_sum) {
  trial_loss_ = loss_sum / samples_;
  Step step{{scaled(NamedVector::gradient, 1 / samples_),
             {.op = VectorOp::greatest, .target = NamedVector::gradient}}};
  if (phase_ == Phase::measures) {
    step.commands.push_back(dot(NamedVector::gradient, NamedVector::direction));
    return step;
  }
  if (std::isfinite(trial_loss_)) {
    step.commands.push_back({.op = VectorOp::sum_abs, .target = NamedVector::gradient});
    return step;
  }
  failure_ = fmt::format("the loss before iteration 1 is {}", trial_loss_);
  phase_ = Phase::rests;
  return std::nullopt;
}

// Each phase knows how many values its list told.
std::optional<LbfgsCourse::Step> LbfgsCourse::answered(std::span<const double> values) {
  switch (phase_) {
    case Phase::measures_first:
      is_somewhere_ = true;
      loss_ = trial_loss_;
      largest_gradient_ = values[0];
      gradient_sum_ = values[1];
      phase_ = Phase::rests;
      if (largest_gradient_ <= options_.tolerance) return std::nullopt;
      return direct();
    case Phase::turns:
      if (loops_) return turn(loops_->next(values[0]), {});
      return begin_search(values[0]);
    case Phase::measures:
      search_->take({trial_step_, trial_loss_, values[1]});
      if (search_->result().found) largest_gradient_ = values[0];
      return searched();
    case Phase::learns: take_pair(values); break;
    case Phase::returns:
    case Phase::rests: break;
  }
  phase_ = Phase::rests;
  return std::nullopt;
}

// The last pair is copied here, so that it needs no list of its own.
LbfgsCourse::Step LbfgsCourse::direct() {
  std::vector<VectorCommand> commands;
  std::vector<double> products;
  for (const Pair& pair : pairs_) products.push_back(pair.sy);
  if (std::exchange(pair_is_new_, false))
    commands = {copy(pairs_[0].move, NamedVector::direction),
                copy(pairs_[0].change, NamedVector::base_gradient)};
  commands.insert(commands.end(), {copy(NamedVector::base, NamedVector::here),
                                   copy(NamedVector::base_gradient, NamedVector::gradient),
                                   copy(NamedVector::direction, NamedVector::gradient)});
  std::optional<double> scale;
  if (!pairs_.empty()) scale = pairs_[0].sy / pairs_[0].yy;
  loops_.emplace(std::move(products), scale);
  phase_ = Phase::turns;
  return turn(loops_->next(), std::move(commands));
}

// The last list makes the product of the inverse Hessian and the gradient a direction downhill.
LbfgsCourse::Step LbfgsCourse::turn(const TwoLoop::Step& step,
                                    std::vector<VectorCommand> commands) {
  if (step.added)
    commands.push_back(axpy(NamedVector::direction, vector_of(*step.added), step.factor));
  if (step.scale) commands.push_back(scaled(NamedVector::direction, *step.scale));
  if (step.product) {
    commands.push_back(dot(vector_of(*step.product), NamedVector::direction));
  } else {
    commands.push_back(scaled(NamedVector::direction, -1));
    commands.push_back(dot(NamedVector::gradient, NamedVector::direction));
    loops_.reset();
  }
  return {std::move(commands)};
}

std::uint8_t LbfgsCourse::vector_of(const TwoLoop::Vector& one) const {
  const Pair& pair = pairs_[one.age];
  return one.of == TwoLoop::Vector::Of::move ? pair.move : pair.change;
}

// Without any curvature yet, the length of the gradient says nothing about that of the step.
LbfgsCourse::Step LbfgsCourse::begin_search(double slope) {
  const double first = iterations_ == 0 ? std::min(1.0, 1 / gradient_sum_) : 1.0;
  search_.emplace(LinePoint{0, loss_, slope}, first * options_.first_step,
                  quasi_newton::WolfeOptions{.max_evaluations = options_.max_evaluations});
  return *searched();
}

LbfgsCourse::Step LbfgsCourse::evaluate_at(double step) {
  ++evaluations_;
  trial_step_ = step;
  phase_ = Phase::measures;
  return {{copy(NamedVector::here, NamedVector::base),
           axpy(NamedVector::here, NamedVector::direction, step)},
          true};
}

std::optional<LbfgsCourse::Step> LbfgsCourse::searched() {
  if (const auto step = search_->step()) return evaluate_at(*step);
  if (search_->result().found) return learn();
  const auto& [point, found, evaluations] = search_->result();
  failure_ = fmt::format(
      "no step of iteration {} satisfies the strong Wolfe conditions after {} evaluations. At the "
      "beginning the loss is {} with slope {}, at the last step tried, {}, it is {} with slope {}. "
      "The gradients may not be those of the loss, the loss may have no lower bound, or it is as "
      "small as its type can tell: use float64, or stop here",
      iterations_ + 1, evaluations, search_->start().value, search_->start().slope, point.step,
      point.value, point.slope);
  phase_ = Phase::returns;
  return Step{{copy(NamedVector::here, NamedVector::base),
               copy(NamedVector::gradient, NamedVector::base_gradient)}};
}

// The move takes the place of the direction, and the change that of the gradient before.
LbfgsCourse::Step LbfgsCourse::learn() {
  ++iterations_;
  loss_ = search_->result().point.value;
  phase_ = Phase::learns;
  return {{scaled(NamedVector::direction, search_->result().point.step),
           scaled(NamedVector::base_gradient, -1),
           axpy(NamedVector::base_gradient, NamedVector::gradient, 1),
           dot(NamedVector::direction, NamedVector::base_gradient),
           dot(NamedVector::direction, NamedVector::direction),
           dot(NamedVector::base_gradient, NamedVector::base_gradient)}};
}

void LbfgsCourse::take_pair(std::span<const double> values) {
  if (!quasi_newton::has_curvature(values[0], values[1], values[2])) return;
  Pair pair{static_cast<std::uint8_t>(NamedVector::count + 2 * pairs_.size()),
            static_cast<std::uint8_t>(NamedVector::count + 2 * pairs_.size() + 1)};
  if (pairs_.size() == history_) {
    pair = pairs_.back();
    pairs_.pop_back();
  }
  pair.sy = values[0];
  pair.yy = values[2];
  pairs_.push_front(pair);
  pair_is_new_ = true;
}

}  // namespace paceline::server
