// The product of layers whose outputs are split among ranks.
//
// Several such layers may read one activation, as query, key and value do. Together they need one
// exchange forward (with sequence parallelism: the gathered sequence) and one backward: the sum of
// its gradients over all ranks. The last layer that computes its part of that gradient starts the
// exchange, and computes the gradient of its weight meanwhile.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

#include "paceline/torch/tensor/exchanges.h"
#include "paceline/torch/tensor/region.h"

namespace paceline::tensor {

// activation * weight^T + bias, where this rank holds some rows of the weight and the bias, and
// gets the same columns of the output. `bias` may be undefined. THREAD, THROWS: as exchanges.h
// tells; misuse, from backward: create_graph.
at::Tensor column_product(const at::Tensor& activation, const at::Tensor& weight,
                          const at::Tensor& bias, const LayerPlacePtr& place);

// SharedGradient: how the layers that read one activation bring its gradient together.
//
// THREAD: the one that runs forward and backward.
class SharedGradient : public torch::CustomClassHolder {
 public:
  explicit SharedGradient(LayerPlacePtr place) : place_(std::move(place)) {}

  void add_reader() { ++readers_; }
  // Adds a reader's part of the gradient on this rank. The last one starts the sum over all ranks.
  // Returns what the reader hands on to autograd: nothing, until the last one.
  at::Tensor add(const at::Tensor& part);
  // The sum over all ranks. Readers whose output nobody used have no part in it.
  at::Tensor finish();

 private:
  const LayerPlacePtr place_;
  int readers_ = 0, arrived_ = 0;
  at::Tensor gradient_;  // the sum of this rank's parts
  std::optional<Sum> sum_;
};

// An activation that layers read whose outputs are split, in the form in which they read it.
struct SharedInput {
  c10::weak_intrusive_ptr<at::TensorImpl> activation;
  std::int64_t version = 0;  // of the activation
  bool with_gradient = false;
  at::Tensor whole;  // on every rank
  c10::intrusive_ptr<SharedGradient> gradient;
};

// All layers that read this activation get the same one. It lives until the next call.
const SharedInput& shared_input(const at::Tensor& activation, const LayerPlacePtr& place);

}  // namespace paceline::tensor
