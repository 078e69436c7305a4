// Linear: torch::nn::Linear, which parallelize() can split among ranks.
//
//   paceline::Linear up(64, 256), down(256, 64);   // in the model, as torch::nn::Linear
//   paceline::parallelize(*model, mesh, {{"up", column}, {"down", row}});
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <ostream>
#include <string>

#include "paceline/torch/tensor/region.h"

namespace paceline {

class EmbeddingImpl;

// Names, initial values and results are those of torch::nn::Linear, bit by bit, until a plan splits
// it. Then its options still tell the sizes of the whole layer, and `weight` and `bias` are this
// rank's shards. THREAD: one at a time. THROWS Error, from forward and backward once it is split:
// what ended the communication, with the layer's path; misuse as exchanges.h tells.
class LinearImpl : public torch::nn::Cloneable<LinearImpl>, public tensor::PlacedLayer {
 public:
  LinearImpl(std::int64_t in_features, std::int64_t out_features)
      : LinearImpl(torch::nn::LinearOptions(in_features, out_features)) {}
  explicit LinearImpl(const torch::nn::LinearOptions& linear_options);
  // With the parameters themselves of `layer`, and in its mode.
  explicit LinearImpl(const torch::nn::LinearImpl& layer);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  at::Tensor forward(const at::Tensor& input);

  // Makes the embedding's weight this layer's too, so that both train one tensor, as language
  // models do. It is the embedding's parameter alone then, so that optimizers find it once. Before
  // anything is split. THROWS Error (misuse): sizes that differ.
  void tie(const EmbeddingImpl& embedding);

  // All ranks' columns of an output whose parts stay apart, such as logits, on every rank.
  at::Tensor gathered(const at::Tensor& columns) const;

  torch::nn::LinearOptions options;
  at::Tensor weight;  // [outputs of this rank, inputs of this rank]
  at::Tensor bias;    // [outputs of this rank]; undefined without

  std::string objection(const tensor::Request& request) const override;
  int copies(const tensor::Request& request) const override;
  void place(const tensor::Request& request, const tensor::LayerPlacePtr& place) override;
  tensor::LayerPlacePtr place() const override { return place_; }

 private:
  at::Tensor column_product(const at::Tensor& input);
  at::Tensor row_product(const at::Tensor& input);

  bool is_tied_ = false;
  tensor::LayerPlacePtr place_;  // null: nothing is split
  ParallelStyle style_ = ParallelStyle::column;
};
TORCH_MODULE(Linear);

}  // namespace paceline
