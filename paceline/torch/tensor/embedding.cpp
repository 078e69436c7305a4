#include "paceline/torch/tensor/embedding.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/tensor/exchanges.h"

namespace paceline {

using tensor::Request;
using tensor::ShardRange;

EmbeddingImpl::EmbeddingImpl(const torch::nn::EmbeddingOptions& embedding_options)
    : options(embedding_options) {
  reset();
}

EmbeddingImpl::EmbeddingImpl(const torch::nn::EmbeddingImpl& layer) : options(layer.options) {
  weight = register_parameter("weight", layer.weight, layer.weight.requires_grad());
  train(layer.is_training());
}

void EmbeddingImpl::reset() {
  const torch::nn::EmbeddingImpl drawn(options);
  options = drawn.options;  // with a padding index that counts from 0
  weight = register_parameter("weight", drawn.weight);
}

void EmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << "paceline::Embedding(num_embeddings=" << options.num_embeddings()
         << ", embedding_dim=" << options.embedding_dim();
  if (place_) stream << ", split=" << name_of(style_);
  stream << ")";
}

at::Tensor EmbeddingImpl::forward(const at::Tensor& indices) {
  const std::int64_t padding = options.padding_idx().value_or(-1);
  if (!place_) {
    return in_two_parts(
        [=, this](const at::Tensor& given) { return look_up(given, weight, padding); }, indices,
        {weight});
  }
  if (place_->region->size() == 1) return look_up(indices, weight, padding);
  return style_ == ParallelStyle::sequence ? own_positions(indices) : words_of_all(indices);
}

at::Tensor EmbeddingImpl::look_up(const at::Tensor& indices, const at::Tensor& rows,
                                  std::int64_t padding) const {
  if (options.max_norm()) {
    return torch::nn::functional::embedding(indices, rows,
                                            torch::nn::functional::EmbeddingFuncOptions()
                                                .padding_idx(options.padding_idx())
                                                .max_norm(options.max_norm())
                                                .norm_type(options.norm_type())
                                                .scale_grad_by_freq(options.scale_grad_by_freq())
                                                .sparse(options.sparse()));
  }
  return at::embedding(rows, indices, padding, options.scale_grad_by_freq(), options.sparse());
}

// Words of other ranks are looked up as this one's first row, whose copies count as zeros.
at::Tensor EmbeddingImpl::words_of_all(const at::Tensor& indices) {
  if (indices.numel() > 0 && (indices.min().item<std::int64_t>() < 0 ||
                              indices.max().item<std::int64_t>() >= options.num_embeddings())) {
    throw_misuse(c10::str("layer '", place_->layer, "': an index is not in 0 .. ",
                          options.num_embeddings() - 1, ", the words that the layer has"));
  }
  const tensor::Region& region = *place_->region;
  const ShardRange own = tensor::range_of(options.num_embeddings(), region.rank(), region.size());
  const at::Tensor is_foreign = (indices < own.begin).logical_or_(indices >= own.end);
  const at::Tensor local = (indices - own.begin).masked_fill_(is_foreign, 0);
  const std::int64_t padding = options.padding_idx().value_or(-1);
  const bool has_padding = padding >= own.begin && padding < own.end;
  const at::Tensor rows = look_up(local, weight, has_padding ? padding - own.begin : -1)
                              .masked_fill(is_foreign.unsqueeze(-1), 0);
  return tensor::sum_of_parts(rows, place_);
}

at::Tensor EmbeddingImpl::own_positions(const at::Tensor& indices) {
  const tensor::Region& region = *place_->region;
  const std::int64_t length = indices.size(-1);
  if (length % region.size() != 0) {
    throw_misuse(c10::str("layer '", place_->layer, "': ", region.size(),
                          " ranks cannot share a sequence of ", length,
                          " equally: take a length that they divide"));
  }
  const ShardRange own = tensor::range_of(length, region.rank(), region.size());
  const at::Tensor rows = tensor::with_summed_gradients({weight}, *region.group, place_)[0];
  return look_up(indices.narrow(-1, own.begin, own.length()), rows,
                 options.padding_idx().value_or(-1));
}

std::string EmbeddingImpl::objection(const Request& request) const {
  if (request.style != ParallelStyle::vocabulary && request.style != ParallelStyle::sequence)
    return "an Embedding has the styles vocabulary, and sequence for positions";
  if (options.max_norm() || options.scale_grad_by_freq() || options.sparse())
    return "an Embedding with max_norm, scale_grad_by_freq or sparse cannot be split";
  if (request.style == ParallelStyle::vocabulary && options.num_embeddings() < request.ranks)
    return c10::str("it has ", options.num_embeddings(), " words for ", request.ranks, " ranks");
  return {};
}

void EmbeddingImpl::place(const Request& request, const tensor::LayerPlacePtr& place) {
  place_ = place;
  style_ = request.style;
  if (style_ == ParallelStyle::sequence) return;
  tensor::Region& region = *place->region;
  region.keep_range(weight, 0,
                    tensor::range_of(options.num_embeddings(), region.rank(), request.ranks));
}

}  // namespace paceline
