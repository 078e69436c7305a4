// One rank's tensors for all: at the start of a training, or after a checkpoint was read on one
// rank. DataParallel does it by itself when it is made; an optimizer's state it does not know.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <vector>

#include "paceline/core/collective/group/communicator.h"

namespace paceline {

// In place, in one message; all ranks hand in tensors of the same shapes and types. THROWS Error:
// mismatch that names the first difference; misuse for tensors that are not dense in host memory.
void broadcast_parameters(const std::vector<at::Tensor>& tensors, Communicator& group,
                          int root = 0);
// Parameters and buffers.
void broadcast_parameters(const torch::nn::Module& model, Communicator& group, int root = 0);

// Momenta, step counts and options, also to ranks whose optimizer has made no step yet; what the
// root has not, a rank has not afterwards. All ranks
// have an optimizer of the same kind over the same parameters in the same order.
void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, Communicator& group,
                               int root = 0);

}  // namespace paceline
