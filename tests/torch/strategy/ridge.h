// Ridge regression, problem T1 of the strategies' tests: contiguous shards of 200 samples, whole
// gradients, a known optimum.
#pragma once

#include <string>
#include <vector>

#include "paceline/torch/replica/replica.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {

class Ridge {
 public:
  static constexpr std::int64_t kSamples = 200, kWidth = 20;
  static constexpr double kPenalty = 1e-2;

  explicit Ridge(int ranks, std::uint64_t seed = 0) : ranks_(ranks) {
    at::Generator generator = at::detail::createCPUGenerator(seed);
    const auto f64 = at::TensorOptions().dtype(at::kDouble);
    x_ = at::randn({kSamples, kWidth}, generator, f64);
    x_ /= x_.norm(2, 1, true);
    y_ = at::mv(x_, at::randn({kWidth}, generator, f64)) +
         0.1 * at::randn({kSamples}, generator, f64);
    // Shards that differ: samples in the order of their targets.
    const at::Tensor order = y_.argsort();
    x_ = x_.index_select(0, order).contiguous();
    y_ = y_.index_select(0, order).contiguous();
    optimum_ = at::linalg_solve(x_.t().matmul(x_) / kSamples + kPenalty * at::eye(kWidth, f64),
                                x_.t().matmul(y_) / kSamples);
  }

  // The gradient of rank r's loss: the mean over its shard, and the penalty.
  at::Tensor loss(int rank, const at::Tensor& w) const {
    const auto [x, y] = shard(rank);
    return (at::mv(x, w) - y).square().mean() / 2 + kPenalty / 2 * w.square().sum();
  }
  double error(const at::Tensor& w) const {
    return ((w - optimum_).norm() / optimum_.norm()).item<double>();
  }

  // Trains by plain SGD on whole shards, and returns the consensus.
  at::Tensor train(const std::string& synchrony, int steps, double rate) const {
    at::Tensor result;
    run_ranks(ranks_, [&](Job& job) {
      at::Tensor w = at::zeros({kWidth}, at::kDouble).requires_grad_();
      DataParallel parallel(std::vector<replica::Parameter>{{"w", w}}, job,
                            {.synchrony = synchrony});
      torch::optim::SGD optimizer({w}, rate);
      for (int k = 0; k < steps; ++k) {
        optimizer.zero_grad();
        loss(job.rank(), w).backward();
        parallel.step(optimizer);
      }
      const auto shared = parallel.consensus();
      if (job.rank() == 0) result = w.detach().clone();
    });
    return result;
  }

  // The end of averaging after `period` local steps: each block contracts rank r's distance from
  // its own optimum by R_r = (I - rate H_r)^period, so w = mean(R_r w + (I - R_r) w_r).
  at::Tensor fixed_point_of_averaging(int period, double rate) const {
    const at::Tensor eye = at::eye(kWidth, at::kDouble);
    at::Tensor left = at::zeros_like(eye), right = at::zeros({kWidth}, at::kDouble);
    for (int r = 0; r < ranks_; ++r) {
      const auto [x, y] = shard(r);
      const auto n = static_cast<double>(x.size(0));
      const at::Tensor hessian = x.t().matmul(x) / n + kPenalty * eye,
                       own = at::linalg_solve(hessian, x.t().matmul(y) / n),
                       moved = eye - at::matrix_power(eye - rate * hessian, period);
      left += moved;
      right += at::mv(moved, own);
    }
    return at::linalg_solve(left, right);
  }

  const at::Tensor& optimum() const { return optimum_; }

 private:
  std::pair<at::Tensor, at::Tensor> shard(int rank) const {
    const std::int64_t begin = kSamples * rank / ranks_, end = kSamples * (rank + 1) / ranks_;
    return {x_.slice(0, begin, end), y_.slice(0, begin, end)};
  }

  const int ranks_;
  at::Tensor x_, y_, optimum_;
};

}  // namespace paceline
