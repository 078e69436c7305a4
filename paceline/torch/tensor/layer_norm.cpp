#include "paceline/torch/tensor/layer_norm.h"

#include <torch/torch.h>

#include <utility>

#include "paceline/torch/tensor/exchanges.h"

namespace paceline {

using tensor::Request;

LayerNormImpl::LayerNormImpl(torch::nn::LayerNormOptions norm_options)
    : options(std::move(norm_options)) {
  reset();
}

LayerNormImpl::LayerNormImpl(const torch::nn::LayerNormImpl& layer) : options(layer.options) {
  const bool is_affine = options.elementwise_affine();
  weight = register_parameter("weight", layer.weight, is_affine && layer.weight.requires_grad());
  bias = register_parameter("bias", layer.bias, is_affine && layer.bias.requires_grad());
  train(layer.is_training());
}

void LayerNormImpl::reset() {
  const torch::nn::LayerNormImpl drawn(options);
  weight = register_parameter("weight", drawn.weight, options.elementwise_affine());
  bias = register_parameter("bias", drawn.bias, options.elementwise_affine());
}

void LayerNormImpl::pretty_print(std::ostream& stream) const {
  stream << "paceline::LayerNorm(" << at::IntArrayRef(options.normalized_shape())
         << ", eps=" << options.eps() << (place_ ? ", split=sequence)" : ")");
}

at::Tensor LayerNormImpl::forward(const at::Tensor& input) {
  at::Tensor gain = weight, shift = bias;
  if (place_ && options.elementwise_affine()) {
    const auto shared =
        tensor::with_summed_gradients({weight, bias}, *place_->region->group, place_);
    gain = shared[0];
    shift = shared[1];
  }
  return at::layer_norm(input, options.normalized_shape(), gain, shift, options.eps());
}

std::string LayerNormImpl::objection(const Request& request) const {
  return request.style == ParallelStyle::sequence ? "" : "a LayerNorm has the style sequence alone";
}

void LayerNormImpl::place(const Request&, const tensor::LayerPlacePtr& place) {
  place_ = place;
}

}  // namespace paceline
