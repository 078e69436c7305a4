// Embedding: torch::nn::Embedding, which parallelize() can split among ranks.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/pimpl.h>

#include <ostream>
#include <string>

#include "paceline/torch/tensor/region.h"

namespace paceline {

// Names, initial values and results are those of torch::nn::Embedding, bit by bit, until a plan
// splits it. With the style vocabulary each rank holds the rows of some words, as many as any other
// rank or one fewer, and the rows that it looks up are summed. With the style sequence every rank
// holds all rows, and looks up those of its part of the sequence, the last dimension of the indices
// (for positions). THREAD, THROWS: as LinearImpl; misuse: an index out of range.
class EmbeddingImpl : public torch::nn::Cloneable<EmbeddingImpl>, public tensor::PlacedLayer {
 public:
  EmbeddingImpl(std::int64_t num_embeddings, std::int64_t embedding_dim)
      : EmbeddingImpl(torch::nn::EmbeddingOptions(num_embeddings, embedding_dim)) {}
  explicit EmbeddingImpl(const torch::nn::EmbeddingOptions& embedding_options);
  // With the parameter itself of `layer`, and in its mode.
  explicit EmbeddingImpl(const torch::nn::EmbeddingImpl& layer);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  at::Tensor forward(const at::Tensor& indices);

  torch::nn::EmbeddingOptions options;
  at::Tensor weight;  // [words of this rank, features]

  std::string objection(const tensor::Request& request) const override;
  void place(const tensor::Request& request, const tensor::LayerPlacePtr& place) override;
  tensor::LayerPlacePtr place() const override { return place_; }

 private:
  at::Tensor look_up(const at::Tensor& indices, const at::Tensor& rows, std::int64_t padding) const;
  at::Tensor words_of_all(const at::Tensor& indices);
  at::Tensor own_positions(const at::Tensor& indices);

  tensor::LayerPlacePtr place_;  // null: nothing is split
  ParallelStyle style_ = ParallelStyle::vocabulary;
};
TORCH_MODULE(Embedding);

}  // namespace paceline
