// The operators through which activations pass between layers that are split among ranks. Each is
// the conjugate of another: what one does forward, the other does backward.
//
// Shoeybi et al., Megatron-LM: Training Multi-Billion Parameter Language Models Using Model
// Parallelism, 2019, section 3 (f and g); Korthikanti et al., Reducing Activation Recomputation in
// Large Transformer Models, MLSys 2023, section 4.2 (the same along the sequence).
//
// THREAD: the one that runs forward and backward. THROWS Error, from forward and backward: what
// ended the communication, with the layer's name.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "paceline/torch/tensor/region.h"

namespace paceline::tensor {

// The sum of all ranks' partial results: on every rank; with sequence parallelism, each rank's part
// of it. All ranks have the same gradient then; or each its part, which is gathered.
at::Tensor sum_of_parts(const at::Tensor& partial, const LayerPlacePtr& place);

// The tensors as they are; the gradients that the ranks of `group` computed for them are added up,
// in one message. `group` outlives the graph.
std::vector<at::Tensor> with_summed_gradients(const std::vector<at::Tensor>& tensors,
                                              Communicator& group, const LayerPlacePtr& place);

// All ranks' columns (the last dimension, split by range_of) side by side, `whole` of them; each
// rank keeps the gradient of its own.
at::Tensor gathered_columns(const at::Tensor& columns, std::int64_t whole,
                            const LayerPlacePtr& place);

// --- without autograd ---

// All ranks' equal parts of the sequence, the last dimension but one, one after the other.
at::Tensor gathered_sequence(const at::Tensor& part, const LayerPlace& place);

// The sum of all ranks' partial results, as sum_of_parts() gives it, once `work` is done.
struct Sum {
  at::Tensor outcome;
  Work work;
};
Sum begin_sum(const at::Tensor& partial, const LayerPlace& place);

}  // namespace paceline::tensor
