// SharedInput: the activation that enters layers whose outputs are split among ranks.
//
// Several layers may read one activation, as query, key and value do. Together they need one
// exchange forward (with sequence parallelism, the gathered sequence) and one backward: the sum of
// their gradients over all ranks. The last of them to compute its part of that gradient starts the
// exchange, and computes the gradient of its weight meanwhile.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "paceline/torch/tensor/region.h"

namespace paceline::tensor {

class SharedInput : public torch::CustomClassHolder {
 public:
  // The input of a layer at `place`, as all layers that read this activation share it.
  static c10::intrusive_ptr<SharedInput> of(const at::Tensor& activation, const PlacePtr& place);
  explicit SharedInput(PlacePtr place) : place_(std::move(place)) {}

  // The whole activation, on every rank.
  const at::Tensor& whole() const { return whole_; }

  // --- for layers, in forward and backward ---
  void add_reader() { ++readers_; }
  // Takes a layer's part of the gradient. Returns what the layer hands on to autograd.
  at::Tensor add_gradient(const at::Tensor& part);

  // --- for its own node in autograd's graph ---
  at::Tensor enter(const at::Tensor& activation);
  at::Tensor finish_gradient();

 private:
  void start();

  const PlacePtr place_;
  c10::weak_intrusive_ptr<at::TensorImpl> activation_{nullptr};
  std::uint32_t version_ = 0;  // of the activation
  bool with_gradient_ = false;
  at::Tensor whole_;

  int readers_ = 0, arrived_ = 0;
  at::Tensor gradient_, outcome_;  // the sum of this rank's parts; of all ranks'
  std::optional<Work> work_;
};

// input * weight^T + bias, where this rank holds some rows of `weight` and `bias`, and gives the
// same columns of the output. `bias` may be undefined.
at::Tensor column_product(const at::Tensor& activation, const at::Tensor& weight,
                          const at::Tensor& bias, const PlacePtr& place);

}  // namespace paceline::tensor
