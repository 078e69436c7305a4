// Problems with known answers, for the tests of this room: T1 is ridge regression, T2 logistic
// regression, both in fp64; and a small training on ranks.
#pragma once

#include <functional>

#include "paceline/torch/optimizers/optimizers.h"
#include "paceline/torch/replica/replica.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {

using LossClosure = torch::optim::Optimizer::LossClosure;

// The mean of per-sample losses over rows, and penalty/2 |w|^2.
class LinearProblem {
 public:
  enum class Kind { ridge, logistic };
  static constexpr double kPenalty = 1e-2;

  LinearProblem(Kind kind, std::int64_t samples, std::int64_t width, std::uint64_t seed = 0)
      : kind_(kind) {
    at::Generator generator = at::detail::createCPUGenerator(seed);
    const auto f64 = at::TensorOptions().dtype(at::kDouble);
    x_ = at::randn({samples, width}, generator, f64);
    if (kind == Kind::ridge) x_ /= x_.norm(2, 1, true);
    const double noise = kind == Kind::ridge ? 0.1 : 1;
    y_ = at::mv(x_, at::randn({width}, generator, f64)) +
         noise * at::randn({samples}, generator, f64);
    if (kind == Kind::logistic) y_ = y_.sign();
    optimum_ = at::zeros({width}, f64);
    for (int k = 0; k < 50; ++k) {  // Newton
      const at::Tensor z = at::mv(x_, optimum_);
      const at::Tensor slope = kind == Kind::ridge ? z - y_ : -y_ * at::sigmoid(-y_ * z),
                       bend = kind == Kind::ridge ? at::ones_like(z)
                                                  : at::sigmoid(z) * at::sigmoid(-z);
      const auto n = static_cast<double>(samples);
      const at::Tensor gradient = at::mv(x_.t(), slope) / n + kPenalty * optimum_,
                       hessian = x_.t().matmul(bend.unsqueeze(1) * x_) / n +
                                 kPenalty * at::eye(width, f64);
      optimum_ = optimum_ - at::linalg_solve(hessian, gradient);
    }
  }
  static LinearProblem t1(std::uint64_t seed = 0) { return {Kind::ridge, 200, 20, seed}; }
  static LinearProblem t2(std::uint64_t seed = 0) { return {Kind::logistic, 512, 10, seed}; }

  std::int64_t samples() const { return x_.size(0); }
  std::int64_t width() const { return x_.size(1); }
  at::Tensor start() const { return at::zeros({width()}, at::kDouble).requires_grad_(); }

  at::Tensor loss(const at::Tensor& w, const at::Tensor& rows) const {
    return loss_of(w, x_.index_select(0, rows), y_.index_select(0, rows));
  }
  at::Tensor loss(const at::Tensor& w) const { return loss_of(w, x_, y_); }
  // The loss over contiguous rows, as a rank has them.
  at::Tensor loss(const at::Tensor& w, std::int64_t begin, std::int64_t end) const {
    return loss_of(w, x_.slice(0, begin, end), y_.slice(0, begin, end));
  }
  double gap(const at::Tensor& w) const {
    const at::NoGradGuard no_grad;
    return (loss(w) - loss(optimum_)).item<double>();
  }
  // The largest smoothness of a sample's loss.
  double smoothness() const { return x_.square().sum(1).max().item<double>() + kPenalty; }

 private:
  at::Tensor loss_of(const at::Tensor& w, const at::Tensor& x, const at::Tensor& y) const {
    const at::Tensor z = at::mv(x, w);
    const at::Tensor each = kind_ == Kind::ridge ? (z - y).square() / 2 : at::softplus(-y * z);
    return each.mean() + kPenalty / 2 * w.square().sum();
  }

  Kind kind_;
  at::Tensor x_, y_, optimum_;
};

// The closure of one process: clears the grad of w, and makes it that of the loss.
inline LossClosure closure_of(const at::Tensor& w, const std::function<at::Tensor()>& loss) {
  return [w, loss] {
    w.mutable_grad().reset();
    const at::Tensor here = loss();
    here.backward();
    return here;
  };
}

inline at::Tensor rosenbrock(const at::Tensor& w) {
  return (1 - w[0]).square() + 100 * (w[1] - w[0].square()).square();
}

}  // namespace paceline
