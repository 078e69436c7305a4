// Clipping by the global norm (docs/guide/data_parallel.md).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "paceline/core/collective/group/communicator.h"

namespace paceline {

struct ClipOptions {
  double norm_type = 2;  // p of the p-norm; infinity: the largest magnitude
  // A norm that is NaN or infinite. True: misuse, gradients as they were. False: nothing is scaled,
  // and the caller sees the norm.
  bool refuse_non_finite = true;
};

// Scales the grads of `parameters` (those that have one) by min(1, max_norm / (norm + 1e-6)), where
// norm is that of all of them as one vector, and returns norm. What
// torch::nn::utils::clip_grad_norm_ does, with sums in f64 and in an order that does not depend on
// the number of threads: replicas with equal gradients scale by the same bits and stay equal,
// without any communication. Sparse gradients count and are scaled by their coalesced rows.
//
// Gradients of a DataParallel may lie elsewhere (masters of the precision o2), or in part on other
// ranks (zero_stage, layers that are split). Then `parameters` may be the model's or
// DataParallel::parameters(), all or some: the norm is that of the whole gradients, and all ranks
// call it, after synchronize(). THROWS Error then also: misuse, before synchronize(); what ended
// the communication.
double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                      const ClipOptions& options = {});

// Multiplies the grads of `parameters`, which may be those that clip_grad_norm takes, on this rank.
void scale_grads(const std::vector<at::Tensor>& parameters, double factor);

// How ranks share the parameters of one model.
struct NormShares {
  // Whether this rank counts the parameter's gradient in the norm; null: it counts all.
  std::function<bool(const at::Tensor&)> is_counted = {};
  // The norm is that of the ranks of these groups together: first along one axis, then the next.
  std::vector<Communicator*> groups = {};
};
// The same where every rank has some of the gradients, or all of a part of them: each is counted on
// one rank, all are scaled by the same bits. Every rank calls it. THROWS Error also: what ended the
// communication.
double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                      const ClipOptions& options, const NormShares& shares);

}  // namespace paceline
