#include "paceline/torch/tensor/linear.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/tensor/column_product.h"
#include "paceline/torch/tensor/embedding.h"
#include "paceline/torch/tensor/exchanges.h"

namespace paceline {

using tensor::Request;
using tensor::ShardRange;

LinearImpl::LinearImpl(const torch::nn::LinearOptions& linear_options) : options(linear_options) {
  reset();
}

LinearImpl::LinearImpl(const torch::nn::LinearImpl& layer) : options(layer.options) {
  weight = register_parameter("weight", layer.weight, layer.weight.requires_grad());
  bias = register_parameter("bias", layer.bias, layer.bias.defined() && layer.bias.requires_grad());
  train(layer.is_training());
}

void LinearImpl::reset() {
  if (is_tied_) {
    throw_misuse(
        "a Linear that shares its weight with an Embedding cannot be cloned: make another model, "
        "and copy the parameters");
  }
  const torch::nn::LinearImpl drawn(options);
  weight = register_parameter("weight", drawn.weight);
  bias = register_parameter("bias", drawn.bias, options.bias());
}

void LinearImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "paceline::Linear(in_features=" << options.in_features()
         << ", out_features=" << options.out_features() << ", bias=" << options.bias();
  if (place_) stream << ", split=" << name_of(style_);
  stream << ")";
}

at::Tensor LinearImpl::forward(const at::Tensor& input) {
  if (!place_) {
    return in_two_parts(
        [this](const at::Tensor& given) {
          return torch::nn::functional::linear(given, weight, bias);
        },
        input, {weight, bias});
  }
  if (style_ == ParallelStyle::row) return row_product(input);
  const at::Tensor columns = column_product(input);
  return style_ == ParallelStyle::split ? gathered(columns) : columns;
}

at::Tensor LinearImpl::gathered(const at::Tensor& columns) const {
  if (!place_) return columns;
  if (place_->copies) {
    throw_misuse(c10::str("layer '", place_->layer,
                          "': several ranks hold the same heads, so their outputs are no parts of "
                          "a whole"));
  }
  return tensor::gathered_columns(columns, options.out_features(), place_);
}

// Ranks that hold the same heads of keys each know the gradient of their own queries alone.
at::Tensor LinearImpl::column_product(const at::Tensor& input) {
  if (!place_->copies) return tensor::column_product(input, weight, bias, place_);
  std::vector<at::Tensor> shards = {weight};
  if (bias.defined()) shards.push_back(bias);
  shards = tensor::with_summed_gradients(shards, *place_->copies, place_);
  return tensor::column_product(input, shards[0], bias.defined() ? shards[1] : bias, place_);
}

// The bias is added once, after the sum; where each rank has its part of the sequence, each knows a
// part of the bias's gradient.
at::Tensor LinearImpl::row_product(const at::Tensor& input) {
  if (input.size(-1) != weight.size(1)) {
    throw_misuse(c10::str("layer '", place_->layer, "' is split by rows, so its input has ",
                          weight.size(1), " features on this rank, and this one is ",
                          describe(input),
                          input.size(-1) == options.in_features()
                              ? ": the whole input. Give the layer before it the style column or "
                                "heads, whose outputs "
                                "stay apart; one of style split, or none, gives whole outputs"
                              : ""));
  }
  place_->region->last_input.reset();
  const at::Tensor sum = tensor::sum_of_parts(at::linear(input, weight), place_);
  if (!bias.defined()) return sum;
  if (!place_->region->is_sequence_parallel) return sum + bias;
  return sum + tensor::with_summed_gradients({bias}, *place_->region->group, place_)[0];
}

void LinearImpl::tie(const EmbeddingImpl& embedding) {
  if (place_ || embedding.weight.sizes() != weight.sizes()) {
    throw_misuse(c10::str("a Linear with weight ", describe(weight),
                          " cannot share that of an Embedding, ", describe(embedding.weight),
                          ": both are words x features, and are tied before they are split"));
  }
  weight = embedding.weight;
  parameters_.erase("weight");
  is_tied_ = true;
}

// --- how it is split
// ------------------------------------------------------------------------------

std::string LinearImpl::objection(const Request& request) const {
  const std::int64_t outputs = options.out_features(), inputs = options.in_features();
  const auto uneven = [&](const char* what, std::int64_t count) {
    return count % request.ranks == 0
               ? std::string()
               : c10::str(request.ranks, " ranks cannot share its ", count, " ", what,
                          " equally: take a tp that divides them");
  };
  switch (request.style) {
    case ParallelStyle::column: return uneven("outputs", outputs);
    case ParallelStyle::row: return uneven("inputs", inputs);
    case ParallelStyle::vocabulary:
    case ParallelStyle::split:
      return outputs >= request.ranks
                 ? std::string()
                 : c10::str("it has ", outputs, " outputs for ", request.ranks, " ranks");
    case ParallelStyle::sequence:
      return "the style sequence is for LayerNorm, Dropout, and an Embedding of positions, which "
             "treat each place of the sequence by itself";
    case ParallelStyle::heads: break;
  }
  if (request.head_size <= 0 || outputs % request.head_size != 0) {
    return c10::str("the style heads needs the size of a head, which divides its ", outputs,
                    " outputs: {\"path\", heads, head_size}");
  }
  const std::int64_t heads = outputs / request.head_size;
  if (heads % request.ranks == 0 || request.ranks % heads == 0) return {};
  return c10::str(request.ranks, " ranks cannot share its ", heads,
                  " heads: one of these numbers has to divide the other");
}

int LinearImpl::copies(const Request& request) const {
  if (request.style != ParallelStyle::heads) return 1;
  const auto heads = static_cast<int>(options.out_features() / request.head_size);
  return heads < request.ranks ? request.ranks / heads : 1;
}

void LinearImpl::place(const Request& request, const tensor::LayerPlacePtr& place) {
  place_ = place;
  style_ = request.style;
  tensor::Region& region = *place->region;
  if (style_ == ParallelStyle::row) {
    region.keep_range(weight, 1,
                      tensor::range_of(options.in_features(), region.rank(), request.ranks));
    return;
  }
  const int each = copies(request);
  const ShardRange rows =
      tensor::range_of(options.out_features(), region.rank() / each, request.ranks / each);
  for (const at::Tensor& tensor : {weight, bias})
    if (tensor.defined()) region.keep_range(tensor, 0, rows, region.rank() % each == 0);
}

}  // namespace paceline
