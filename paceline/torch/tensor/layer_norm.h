// LayerNorm: torch::nn::LayerNorm, which may stand where each rank has part of every sequence.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <ostream>
#include <string>
#include <vector>

#include "paceline/torch/tensor/region.h"

namespace paceline {

// Names, initial values and results are those of torch::nn::LayerNorm, bit by bit. With the style
// sequence its input is this rank's part of the sequence, and the gradients of its parameters are
// summed over the ranks. THREAD, THROWS: as LinearImpl.
class LayerNormImpl : public torch::nn::Cloneable<LayerNormImpl>, public tensor::PlacedLayer {
 public:
  explicit LayerNormImpl(std::vector<std::int64_t> normalized_shape)
      : LayerNormImpl(torch::nn::LayerNormOptions(std::move(normalized_shape))) {}
  explicit LayerNormImpl(torch::nn::LayerNormOptions norm_options);
  // With the parameters themselves of `layer`, and in its mode.
  explicit LayerNormImpl(const torch::nn::LayerNormImpl& layer);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  at::Tensor forward(const at::Tensor& input);

  torch::nn::LayerNormOptions options;
  at::Tensor weight, bias;  // [normalized_shape]; undefined without elementwise_affine

  std::string objection(const tensor::Request& request) const override;
  void place(const tensor::Request& request, const tensor::LayerPlacePtr& place) override;
  tensor::LayerPlacePtr place() const override { return place_; }

 private:
  tensor::LayerPlacePtr place_;  // null: nothing is split
};
TORCH_MODULE(LayerNorm);

}  // namespace paceline
