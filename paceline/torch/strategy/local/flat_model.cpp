#include "paceline/torch/strategy/local/flat_model.h"

#include <torch/torch.h>

#include <memory>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::strategy {

using replica::ModelParts;
using replica::Parameter;

FlatModel::FlatModel(const ModelParts& parts, bool with_buffers, const Communicator& group)
    : group_(group) {
  const std::vector<Parameter> trained = parts.trained();
  type_ = trained.front().tensor.scalar_type();
  const auto add = [&](const Parameter& one) {
    if (one.tensor.scalar_type() != type_) {
      throw_misuse(c10::str("'", trained.front().name, "' is ", describe(trained.front().tensor),
                            " and '", one.name, "' is ", describe(one.tensor),
                            ": strategies that send a model as one vector need one floating "
                            "type in it; convert it by model.to(dtype) before DataParallel is "
                            "made, or train with synchrony \"synchronous\""));
    }
    pieces_.push_back({one.tensor, elements_});
    elements_ += one.tensor.numel();
  };
  for (const Parameter& one : trained) add(one);
  trained_ = pieces_.size();
  parameters_ = elements_;
  if (!with_buffers) return;
  for (const Parameter& one : parts.buffers) {
    if (one.tensor.is_floating_point()) add(one);
    else other_buffers_.push_back(one.tensor);
  }
}

at::Tensor FlatModel::make_vector(std::int64_t elements) const {
  const auto options = at::TensorOptions().dtype(type_);
  if (elements == 0) return at::empty({0}, options);
  const auto memory = std::make_shared<Allocation>(
      group_.allocate(static_cast<std::size_t>(elements) * c10::elementSize(type_)));
  return at::from_blob(
      memory->data(), {elements}, [memory](void*) {}, options);
}

at::Tensor FlatModel::part_of(const at::Tensor& vector, const Piece& piece) const {
  const at::Tensor& like = piece.tensor;
  if (!like.is_non_overlapping_and_dense())
    return vector.narrow(0, piece.offset, like.numel()).view(like.sizes());
  return vector.as_strided(like.sizes(), like.strides(), vector.storage_offset() + piece.offset);
}

at::Tensor FlatModel::beside_piece(const at::Tensor& vector, const Piece& piece) const {
  return part_of(vector, piece).to(piece.tensor.device());
}

void FlatModel::read(const at::Tensor& into) const {
  const at::NoGradGuard no_grad;
  for (const Piece& piece : pieces_) part_of(into, piece).copy_(piece.tensor);
}

void FlatModel::write(const at::Tensor& from) const {
  const at::NoGradGuard no_grad;
  for (const Piece& piece : pieces_) at::Tensor(piece.tensor).copy_(part_of(from, piece));
}

void FlatModel::write_buffers(const at::Tensor& from) const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = trained_; i < pieces_.size(); ++i)
    at::Tensor(pieces_[i].tensor).copy_(part_of(from, pieces_[i]));
}

void FlatModel::add(const at::Tensor& vector, double factor) const {
  const at::NoGradGuard no_grad;
  for (const Piece& piece : pieces_)
    at::Tensor(piece.tensor).add_(beside_piece(vector, piece), factor);
}

void FlatModel::read_gradients(const at::Tensor& into) const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < trained_; ++i) {
    const at::Tensor& grad = pieces_[i].tensor.grad();
    const at::Tensor part = part_of(into, pieces_[i]);
    if (grad.defined()) part.copy_(grad.layout() == at::kStrided ? grad : grad.to_dense());
    else part.zero_();
  }
}

void FlatModel::set_where_not(const at::Tensor& is_kept, const at::Tensor& values) const {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < trained_; ++i) {
    at::Tensor tensor = pieces_[i].tensor;
    tensor.copy_(
        at::where(beside_piece(is_kept, pieces_[i]), tensor, beside_piece(values, pieces_[i])));
  }
}

const FlatModel::Piece* FlatModel::piece_of(const at::Tensor& parameter) const {
  for (std::size_t i = 0; i < trained_; ++i)
    if (pieces_[i].tensor.is_same(parameter)) return &pieces_[i];
  return nullptr;
}

double FlatModel::square_distance(const at::Tensor& vector) const {
  const at::NoGradGuard no_grad;
  double sum = 0;
  for (std::size_t i = 0; i < trained_; ++i) {
    const at::Tensor difference = pieces_[i].tensor - beside_piece(vector, pieces_[i]);
    sum += difference.square_().sum(at::kDouble).item<double>();
  }
  return sum;
}

}  // namespace paceline::strategy
