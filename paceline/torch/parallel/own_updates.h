// Updates by optimizers of our own, one for each parameter, so that each can step by itself.
//
// One for each parameter, and not for each message: a schedule may change which gradients share a
// message, and an optimizer's state (momenta) must not be lost with it.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <span>
#include <vector>

#include "paceline/torch/parallel/data_parallel.h"
#include "paceline/torch/parallel/model_parts.h"

namespace paceline::parallel {

class OwnUpdates {
 public:
  // THROWS what `factory` throws; Error (misuse) when it makes none.
  OwnUpdates(const std::vector<Parameter>& parameters, const OptimizerFactory& factory);

  // Called before each optimizer steps.
  void prepare(DataParallel::Prepare prepare) { prepare_ = std::move(prepare); }
  // Of parameters that have a gradient, which is gone afterwards.
  void update(std::span<const int> parameters);
  void update_from(std::size_t first);
  // Returns the seconds that it took.
  double update_all();

 private:
  void update_one(std::size_t i);

  std::vector<at::Tensor> parameters_;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers_;  // by parameter
  DataParallel::Prepare prepare_;
};

}  // namespace paceline::parallel
