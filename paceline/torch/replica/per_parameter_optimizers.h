// Updates by optimizers of our own, one for each parameter, so that each can step by itself.
//
// One for each parameter, and not for each message: a schedule may change which gradients share a
// message, and an optimizer's state (momenta) must not be lost with it.
#pragma once

#include <torch/optim/optimizer.h>

#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/parts/model_parts.h"

namespace paceline::replica {

class PerParameterOptimizers {
 public:
  explicit PerParameterOptimizers(OptimizerFactory factory) : factory_(std::move(factory)) {}

  // From here on indices mean these. One that was here before keeps its optimizer. THROWS what the
  // factory throws; Error (misuse) when it makes none, or one of other tensors than the parameter.
  void bind(const std::vector<Parameter>& parameters);

  // Called before each optimizer steps.
  void prepare(PrepareOptimizer prepare) { prepare_ = std::move(prepare); }
  // Updates those that have a gradient, which is gone afterwards.
  void update(std::span<const int> parameters);
  void update_from(std::size_t first);
  // Returns the seconds that it took.
  double update_all();

  // All of them, with the settings of the step that others make in their place.
  std::vector<torch::optim::Optimizer*> prepared();
  void drop_gradients();

  // Returns them in the order of the parameters.
  std::vector<torch::optim::Optimizer*> optimizers() const;

 private:
  void update_one(at::Tensor& parameter);

  OptimizerFactory factory_;
  std::vector<at::Tensor> parameters_;
  std::unordered_map<const c10::TensorImpl*, std::unique_ptr<torch::optim::Optimizer>> optimizers_;
  PrepareOptimizer prepare_;
};

}  // namespace paceline::replica
