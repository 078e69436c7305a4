// The product of layers whose outputs are split among ranks.
//
// Several such layers may read one activation, as query, key and value do. Together they need one
// exchange forward (with sequence parallelism: the gathered sequence) and one backward: the sum of
// its gradients over all ranks. The last layer that computes its part of that gradient starts the
// exchange, and computes the gradient of its weight meanwhile.
#pragma once

#include <ATen/core/Tensor.h>

#include "paceline/torch/tensor/region.h"

namespace paceline::tensor {

// activation * weight^T + bias, where this rank holds some rows of the weight and the bias, and
// gets the same columns of the output. `bias` may be undefined. THREAD, THROWS: as exchanges.h
// tells; misuse, from backward: create_graph.
at::Tensor column_product(const at::Tensor& activation, const at::Tensor& weight,
                          const at::Tensor& bias, const PlacePtr& place);

}  // namespace paceline::tensor
