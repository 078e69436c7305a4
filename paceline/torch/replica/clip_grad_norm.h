// Clipping by the global norm (docs/guide/data_parallel.md).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "paceline/core/collective/group/communicator.h"

namespace paceline {

struct ClipOptions {
  double norm_type = 2;  // p of the p-norm; infinity: the largest magnitude
  // A norm that is NaN or infinite. True: misuse, gradients as they were. False: nothing is scaled,
  // and the caller sees the norm.
  bool refuse_non_finite = true;
  // The ranks whose gradients are pieces of the ones to be clipped, which all of them do together:
  // the norm is that of all pieces. Null: gradients are whole.
  Communicator* over = nullptr;
};

// Scales the grads of `parameters` (those that have one) by min(1, max_norm / (norm + 1e-6)), where
// norm is that of all of them as one vector, and returns norm. What
// torch::nn::utils::clip_grad_norm_ does, with sums in f64 and in an order that does not depend on
// the number of threads: replicas with equal gradients scale by the same bits and stay equal,
// without any communication. Sparse gradients count and are scaled by their coalesced rows.
double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                      const ClipOptions& options = {});

}  // namespace paceline
