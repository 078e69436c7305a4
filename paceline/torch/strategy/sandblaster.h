// Sandblaster: L-BFGS over whole data sets, whose vectors lie on the servers of a job
// (docs/strategies/sandblaster.md).
//
//   paceline::Sandblaster lbfgs(model, job, {.samples = n, .portion = 256, .history = 10});
//   for (int i = 0; i < 30; ++i)
//     loss = lbfgs.step([&](paceline::Portion p) { return loss_sum(model, p.begin, p.end); });
//
// All workers do this. The samples are cut into portions, which go to whoever is free, so that a
// fast worker computes more of them; the servers sum their gradients, and rank 0 leads the line
// search by messages whose length does not depend on the model.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "paceline/core/job/job.h"

namespace paceline {

struct SandblasterOptions {
  std::int64_t samples = 0;          // of all workers together
  std::int64_t portion = 256;        // samples of one: much less than a worker's share
  std::int64_t history = 10;         // pairs that L-BFGS keeps
  double lr = 1;                     // the first step that a line search tries
  std::int64_t max_eval = 25;        // evaluations of a line search
  double tolerance_grad = 1e-9;      // a step does nothing at this largest |g|
  std::string name = "sandblaster";  // unique among the tables of the job
};

// The samples [begin, end).
struct Portion {
  std::int64_t number = 0, begin = 0, end = 0;
};

// THREAD: one, that of the training. The model and the job outlive it.
class Sandblaster {
 public:
  // Returns the sum of the losses of these samples at the model's present parameters, as a tensor
  // of one element: the same function for all workers and all steps.
  using LossSum = std::function<at::Tensor(Portion portion)>;

  // All workers make it, with equal options; rank 0's parameters are the first ones. Parameters
  // that do not require a gradient are left out. THROWS Error: misuse (the job has no servers, an
  // option is out of its range, parameters are not all f32 or all f64 in host memory), mismatch
  // (the workers differ), peer_lost, timed_out.
  Sandblaster(torch::nn::Module& model, Job& job, const SandblasterOptions& options);
  template <typename Holder>
  requires requires(Holder& holder) {
    { *holder } -> std::convertible_to<torch::nn::Module&>;
  }
  Sandblaster(Holder& holder, Job& job, const SandblasterOptions& options)
      : Sandblaster(static_cast<torch::nn::Module&>(*holder), job, options) {}
  ~Sandblaster();
  Sandblaster(const Sandblaster&) = delete;
  Sandblaster& operator=(const Sandblaster&) = delete;

  // One iteration of L-BFGS. Returns the mean loss where it ended, and leaves the parameters there
  // in the model, both the same on all workers; grads are cleared. A change of the parameters by
  // the program is lost. THROWS Error: misuse, on all workers and with the parameters as they were
  // before: the first loss is not finite (the portion is named), or no step along the direction
  // satisfies the strong Wolfe conditions; peer_lost, timed_out.
  double step(const LossSum& loss_sum);

  std::int64_t portions() const;  // that this worker has computed in all

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
