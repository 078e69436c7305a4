#include "paceline/torch/optimizers/quasi_newton.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/base/base.h"
#include "paceline/core/base/suggestion.h"
#include "paceline/torch/optimizers/curvature_pairs.h"
#include "paceline/torch/optimizers/norms.h"
#include "paceline/torch/optimizers/stepping.h"

namespace paceline::optimizers {
namespace {

using quasi_newton::LinePoint;
using quasi_newton::WolfeResult;

constexpr std::int64_t kLargestMatrix = 20'000;  // rows: 3.2 GB of f64

void require_method(const QuasiNewtonOptions& options, std::int64_t parameters) {
  const std::vector<std::string> known = {"l_bfgs", "bfgs", "dfp"};
  if (std::ranges::find(known, options.method()) == known.end()) {
    throw_misuse("QuasiNewton has no method '" + options.method() +
                 "': it knows l_bfgs, bfgs, dfp" + suggestion(options.method(), known));
  }
  if (options.method() != "l_bfgs" && parameters > kLargestMatrix) {
    throw_misuse(c10::str(options.method(), " keeps a matrix of ", parameters, " x ", parameters,
                          " values, and takes at most ", kLargestMatrix,
                          " parameters: use l_bfgs, which keeps pairs of vectors"));
  }
}

}  // namespace

QuasiNewton::QuasiNewton(std::vector<torch::Tensor> parameters, const QuasiNewtonOptions& defaults)
    : Optimizer(std::move(parameters), std::make_unique<QuasiNewtonOptions>(defaults)),
      parameters_(param_groups_),
      pairs_(parameters_, defaults.method() == "l_bfgs" ? defaults.history_size() : 1) {
  require_method(defaults, parameters_.size());
  if (defaults.method() != "l_bfgs") {
    h_ = parameters_.zeros(parameters_.size());
    h_.diagonal().fill_(1);
  }
}

QuasiNewtonOptions& QuasiNewton::options() {
  return static_cast<QuasiNewtonOptions&>(param_groups_.at(0).options());
}

double QuasiNewton::largest_gradient() const {
  return point_.gradient.defined() ? point_.gradient.abs().max().item<double>() : 0;
}

QuasiNewton::Point QuasiNewton::evaluate(const LossClosure& closure) {
  ++evaluations_;
  const double value = loss_of_closure(closure).item<double>();
  return {value, parameters_.gradient()};
}

at::Tensor QuasiNewton::direction() {
  if (h_.defined()) return product_of(h_, point_.gradient).neg_();
  return pairs_
      .times(point_.gradient, options().scale() ? CurvaturePairs::Beginning::scaled
                                                : CurvaturePairs::Beginning::identity)
      .neg_();
}

void QuasiNewton::learn(const at::Tensor& s, const at::Tensor& y) {
  if (!h_.defined()) {
    pairs_.add(s, y);
  } else if (has_curvature(s, y)) {
    options().method() == "bfgs" ? update_by_bfgs(h_, s, y) : update_by_dfp(h_, s, y);
  }
}

torch::Tensor QuasiNewton::step(LossClosure closure) {
  if (!closure) {
    throw_misuse(
        "QuasiNewton::step() needs a closure that computes loss and gradients, since a line search "
        "evaluates them several times: step([&] { optimizer.zero_grad(); auto l = loss(); "
        "l.backward(); return l; }), on several ranks with parallel.synchronize() and "
        "parallel.mean(l)");
  }
  const at::NoGradGuard no_grad;
  point_ = evaluate(closure);
  const at::Tensor before = at::scalar_tensor(point_.value, at::kDouble);
  if (!std::isfinite(point_.value)) {
    throw_misuse(c10::str("QuasiNewton: the loss before iteration ", iterations_ + 1, " is ",
                          point_.value, ": look at the batch, or begin elsewhere"));
  }
  for (std::int64_t i = 0; i < options().max_iter(); ++i) {
    if (largest_gradient() <= options().tolerance_grad()) break;
    iterate(closure);
  }
  return before;
}

void QuasiNewton::iterate(const LossClosure& closure) {
  const at::Tensor here = parameters_.values(), direction = this->direction();
  const LinePoint start{0, point_.value, inner_product(point_.gradient, direction)};
  Point there;
  const auto evaluate_at = [&](double step) {
    parameters_.assign(here.add(direction, step));
    there = evaluate(closure);
    return LinePoint{step, there.value, inner_product(there.gradient, direction)};
  };
  // Without any curvature yet, the length of the gradient says nothing about that of the step.
  const double first =
      iterations_ == 0 ? std::min(1.0, 1 / point_.gradient.abs().sum().item<double>()) : 1.0;
  const WolfeResult search =
      quasi_newton::wolfe_search(evaluate_at, start, first * options().lr(),
                                 {.max_evaluations = static_cast<int>(options().max_eval())});
  if (!search.found) {
    parameters_.assign(here);
    refuse(search, start);
  }
  ++iterations_;
  learn(direction.mul(search.point.step), there.gradient - point_.gradient);
  point_ = std::move(there);
}

void QuasiNewton::refuse(const WolfeResult& search, const LinePoint& start) const {
  throw_misuse(c10::str(
      "QuasiNewton: no step of iteration ", iterations_ + 1,
      " satisfies the strong Wolfe conditions after ", search.evaluations,
      " evaluations. At the beginning the loss is ", start.value, " with slope ", start.slope,
      ", at the last step tried, ", search.point.step, ", it is ", search.point.value,
      " with slope ", search.point.slope,
      ". The gradients may not be those of the loss (dropout, another batch in each evaluation), "
      "the loss may have no lower bound, or it is as small as its type can tell: use float64, or "
      "stop here"));
}

}  // namespace paceline::optimizers
