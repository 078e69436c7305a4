// How a step of training is made: what --optimizer asks for.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "paceline/core/job/job.h"
#include "paceline/torch/checkpointing/checkpointing.h"
#include "paceline/torch/data/data.h"
#include "paceline/torch/parallel/parallel.h"

// The computation of this worker in a step.
struct PartOfBatch {
  std::int64_t samples = 0;          // 0: it has none, and takes part without
  std::function<at::Tensor()> loss;  // by a forward pass at the present parameters
  std::function<void(const at::Tensor& loss)> backward;
  std::function<void(double loss)> look_at;  // may end the run if the loss is not finite
};

class Steps {
 public:
  virtual ~Steps() = default;
  // Makes step `step` of the run, counted from 1, together with all workers. Returns the loss of
  // this worker's part before it; 0 where it has none.
  virtual double make(std::int64_t step, const PartOfBatch& part, double rate) = 0;
  // Adds what goes on from step to step beside model and DataParallel.
  virtual void add_to(paceline::Checkpoints&) {}
};

// The optimizers that DataParallel owns, one for each parameter, so that it can be updated as soon
// as its gradient is back. Empty: make_steps() makes one of all parameters.
paceline::OptimizerFactory optimizers_of(const std::string& name,
                                         const OptimizerSettings& settings);

// One optimizer of all these parameters. `name`: sgd, adamw, lars, lamb.
std::unique_ptr<torch::optim::Optimizer> optimizer_of_all(const std::string& name,
                                                          const OptimizerSettings& settings,
                                                          std::vector<at::Tensor> parameters);

void set_learning_rate(torch::optim::Optimizer& optimizer, double rate);

// `epoch`: steps of one. All of them live as long as the steps do.
std::unique_ptr<Steps> make_steps(const Options& options, const OptimizerSettings& settings,
                                  paceline::Job& job, torch::nn::Sequential& model,
                                  paceline::DataParallel& parallel,
                                  const paceline::data::LabelledImages& training,
                                  at::ScalarType type, std::int64_t epoch);
