#include "paceline/torch/strategy/local/consensus_penalty.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"

namespace paceline::strategy {

void add_consensus_penalty(const FlatModel& model, const at::Tensor& consensus,
                           const at::Tensor& dual, double penalty) {
  for (std::size_t i = 0; i < model.trained(); ++i) {
    const FlatModel::Piece& piece = model.pieces()[i];
    const at::Tensor pull =
        piece.tensor - model.part_of(consensus, piece) + model.part_of(dual, piece);
    at::Tensor& grad = at::Tensor(piece.tensor).mutable_grad();
    if (!grad.defined()) grad = at::zeros_like(piece.tensor);
    if (grad.layout() != at::kStrided) {
      throw_misuse(
          "synchrony \"admm\" adds a penalty to every gradient, and one of this model is sparse: "
          "make it dense (torch::nn::Embedding without sparse), or take another synchrony");
    }
    grad.add_(pull, penalty);
  }
}

}  // namespace paceline::strategy
