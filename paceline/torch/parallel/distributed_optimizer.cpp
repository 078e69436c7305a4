#include "paceline/torch/parallel/distributed_optimizer.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/replica/replica.h"

namespace paceline {
namespace {

std::vector<replica::Parameter> parameters_of(const torch::optim::Optimizer& optimizer) {
  std::vector<replica::Parameter> parameters;
  for (std::size_t g = 0; g < optimizer.param_groups().size(); ++g) {
    const auto& tensors = optimizer.param_groups()[g].params();
    for (std::size_t i = 0; i < tensors.size(); ++i)
      parameters.push_back({c10::str("group ", g, ", parameter ", i), tensors[i]});
  }
  return parameters;
}

const DataParallelOptions& fitting(const DataParallelOptions& options) {
  if (!options.optimizer) return options;
  throw_misuse(
      "DistributedOptimizer steps the optimizer that it wraps, so DataParallelOptions::optimizer "
      "would make optimizers that nobody steps: leave it out, or make a DataParallel with it and "
      "call its step()");
}

}  // namespace

DistributedOptimizer::DistributedOptimizer(torch::optim::Optimizer& optimizer, Job& job,
                                           const DataParallelOptions& options)
    : optimizer_(optimizer), parallel_(parameters_of(optimizer), job, fitting(options)) {}

DistributedOptimizer::DistributedOptimizer(torch::optim::Optimizer& optimizer, Communicator& group,
                                           const DataParallelOptions& options)
    : optimizer_(optimizer), parallel_(parameters_of(optimizer), group, fitting(options)) {}

bool DistributedOptimizer::synchronize() {
  any_batch_ = parallel_.replicas().synchronize(&optimizer_);
  synchronized_ = true;
  return any_batch_;
}

bool DistributedOptimizer::step() {
  if (*skip_ && !synchronized_) {
    throw_misuse(
        "DistributedOptimizer: step() under skip_synchronize() without a synchronize() before it: "
        "the gradients are this rank's own");
  }
  if (!*skip_) {
    if (synchronized_) {
      throw_misuse(
          "DistributedOptimizer: step() after synchronize() would send the gradients a second "
          "time: call it under "
          "skip_synchronize()");
    }
    synchronize();
  }
  synchronized_ = false;
  if (any_batch_) {
    parallel_.require_own_gradients(optimizer_);
    optimizer_.step();
  }
  return any_batch_;
}

}  // namespace paceline
