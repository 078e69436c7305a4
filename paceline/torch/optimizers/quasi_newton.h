// QuasiNewton: L-BFGS, BFGS and DFP with a line search (docs/optimizers/quasi_newton.md).
//
//   paceline::optimizers::QuasiNewton optimizer(model->parameters());
//   optimizer.step([&] {
//     optimizer.zero_grad();
//     const auto here = loss(model, batch);
//     here.backward();
//     parallel.synchronize();          // the grads are those of all ranks
//     return parallel.mean(here);      // and so is the loss: all ranks take the same branch
//   });
#pragma once

#include <torch/arg.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/quasi_newton/quasi_newton.h"
#include "paceline/torch/optimizers/curvature_pairs.h"

namespace paceline::optimizers {

struct QuasiNewtonOptions : torch::optim::OptimizerCloneableOptions<QuasiNewtonOptions> {
  QuasiNewtonOptions(double lr = 1) : lr_(lr) {}
  TORCH_ARG(double, lr);                       // the first step that a line search tries
  TORCH_ARG(std::string, method) = "l_bfgs";   // or bfgs, dfp: a matrix of d x d values
  TORCH_ARG(std::int64_t, history_size) = 10;  // pairs that l_bfgs keeps
  TORCH_ARG(std::int64_t, max_iter) = 20;      // iterations of a step()
  TORCH_ARG(std::int64_t, max_eval) = 25;      // evaluations of a line search
  TORCH_ARG(double, tolerance_grad) = 1e-9;    // ends a step() at this largest |g|
  // l_bfgs begins with (s.y / y.y) I of the newest pair; false: with I, as bfgs and dfp do.
  TORCH_ARG(bool, scale) = true;

 public:
  double get_lr() const override { return lr(); }
  void set_lr(double value) override { lr(value); }
};

// The parameters are one vector, whatever their groups; the options are the first group's. THREAD:
// one.
class QuasiNewton final : public torch::optim::Optimizer {
 public:
  // THROWS Error (misuse): an unknown method; more parameters than the matrix of bfgs and dfp can
  // have; parameters of several types.
  explicit QuasiNewton(std::vector<torch::Tensor> parameters,
                       const QuasiNewtonOptions& defaults = {});

  // At most `max_iter` iterations, each a line search along -H g. The closure clears the grads,
  // computes them with the loss at the present parameters, and returns the loss; it is the same
  // function for the whole call, and may be another one in the next. Returns the loss before.
  // THROWS Error (misuse), with the parameters as they were before the iteration: no step along the
  // direction satisfies the strong Wolfe conditions (the text tells step and values), or the loss
  // is not finite. COST: 1 evaluation, and about 1.2 for each iteration.
  torch::Tensor step(LossClosure closure) override;

  std::int64_t iterations() const { return iterations_; }    // since the beginning
  std::int64_t evaluations() const { return evaluations_; }  // of the closure, since then
  // The loss and the largest |g| where step() ended.
  double loss() const { return point_.value; }
  double largest_gradient() const;
  const at::Tensor& inverse_hessian() const { return h_; }  // of bfgs and dfp

  // For checkpoints.add(name, [&](CheckpointFields& f) { optimizer.state_fields(f); }).
  template <typename Fields>
  void state_fields(Fields& fields) {
    fields("iterations", iterations_);
    fields("evaluations", evaluations_);
    if (h_.defined()) fields("inverse_hessian", h_);
    else pairs_.state(fields);
  }

 private:
  struct Point {
    double value = 0;
    at::Tensor gradient;
  };
  QuasiNewtonOptions& options();
  Point evaluate(const LossClosure& closure);
  at::Tensor direction();
  void iterate(const LossClosure& closure);
  [[noreturn]] void refuse(const quasi_newton::WolfeResult& search,
                           const quasi_newton::LinePoint& start) const;
  void learn(const at::Tensor& s, const at::Tensor& y);

  const FlatParameters parameters_;
  CurvaturePairs pairs_;  // of l_bfgs
  at::Tensor h_;          // of bfgs and dfp
  Point point_;           // at the present parameters, while step() runs
  std::int64_t iterations_ = 0, evaluations_ = 0;
};

}  // namespace paceline::optimizers
