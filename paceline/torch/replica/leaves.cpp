#include "paceline/torch/replica/leaves.h"

#include <torch/torch.h>

#include <limits>
#include <set>
#include <unordered_set>

#include "paceline/core/base/base.h"
#include "paceline/torch/replica/grads/computed_parameters.h"
#include "paceline/torch/replica/grads/finite_watch.h"

namespace paceline::replica {

Leaves::Leaves(const ModelParts& parts, const Synchrony& synchrony)
    : parts_(parts), synchrony_(synchrony) {
  note_gradients();
}

Leaves::~Leaves() {
  if (noted_) noted_->owner = nullptr;
}

bool Leaves::are_parts() const {
  return synchrony_.pieces() != nullptr || parts_.placements.group() != nullptr;
}

void Leaves::require_means(const char* call) const {
  if (synchrony_.in_step()) {
    throw_misuse(c10::str(call,
                          "() was called between backward() and synchronize(), where the gradients "
                          "are not those of the global batch yet: call synchronize() first"));
  }
  if (synchrony_.is_under_way()) {
    throw_misuse(c10::str(
        call,
        "(): gradients of the last step are under way, each to be applied when its parameter is "
        "used: a schedule that crosses the barrier has no norm of all of them. Clip with "
        "step(optimizer), or leave DataParallelOptions::optimizer out"));
  }
}

NormShares Leaves::norm_shares() const {
  NormShares shares;
  if (const ParameterPieces* const pieces = synchrony_.pieces())
    shares.groups.push_back(pieces->ranks);
  if (Communicator* const group = parts_.placements.group()) {
    shares.groups.push_back(group);
    shares.is_counted = counted();
  }
  return shares;
}

std::string Leaves::name_of(std::size_t parameter) const {
  return parts_.trained()[parameter].name;
}

double Leaves::norm_of(std::size_t parameter, double norm_type) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return paceline::clip_grad_norm(leaves_of(parameter), kInfinity,
                                  {.norm_type = norm_type, .refuse_non_finite = false},
                                  norm_shares());
}

std::vector<at::Tensor> Leaves::leaves_of(std::size_t parameter) const {
  const ParameterPieces* const pieces = synchrony_.pieces();
  if (pieces == nullptr) return {parts_.trained()[parameter].tensor};
  const ParameterPiece* const piece = pieces->find(parameter);
  return piece == nullptr ? std::vector<at::Tensor>() : std::vector{piece->leaf};
}

double Leaves::clip(double max_norm) const {
  return paceline::clip_grad_norm(synchrony_.leaves(), max_norm, {.refuse_non_finite = false},
                                  norm_shares());
}

std::optional<std::size_t> Leaves::first_not_finite() const {
  const std::vector<at::Tensor> leaves = all();
  const ParameterPieces* const pieces = synchrony_.pieces();
  for (std::size_t k = leaves.size(); k-- > 0;) {
    const at::Tensor& grad = leaves[k].grad();
    if (grad.defined() && !is_finite(grad)) return pieces != nullptr ? pieces->own[k].parameter : k;
  }
  return {};
}

// A function that is given a parameter alone, as clip_grad_norm is, finds its gradient by the note.
void Leaves::note_gradients() {
  const ParameterPieces* const pieces = synchrony_.pieces();
  if (!are_parts() && masters_of(parts_).empty()) return;
  noted_ = std::make_shared<NotedGradients>(static_cast<const GradientOwner*>(this));
  const std::vector<Parameter> trained = parts_.trained();
  for (std::size_t i = 0; i < trained.size(); ++i) {
    note_gradient(trained[i].tensor, noted_, i);
    if (trained[i].computed.defined()) note_gradient(trained[i].computed, noted_, i);
  }
  if (pieces == nullptr) return;
  for (const ParameterPiece& piece : pieces->own)
    note_gradient(piece.leaf, noted_, piece.parameter);
}

// Whether this rank counts a leaf in the norm: as it counts the parameter whose leaf it is.
std::function<bool(const at::Tensor&)> Leaves::counted() const {
  const ParameterPieces* const pieces = synchrony_.pieces();
  if (pieces == nullptr)
    return [this](const at::Tensor& parameter) { return parts_.placements.is_counted(parameter); };
  std::unordered_set<const c10::TensorImpl*> known;
  for (const ParameterPiece& piece : pieces->own)
    if (parts_.placements.is_counted(parts_.dense[piece.parameter].tensor))
      known.insert(piece.leaf.unsafeGetTensorImpl());
  return [known](const at::Tensor& leaf) { return known.contains(leaf.unsafeGetTensorImpl()); };
}

std::vector<at::Tensor> Leaves::of(const std::string& name) const {
  const std::vector<Parameter> trained = parts_.trained();
  for (std::size_t i = 0; i < trained.size(); ++i) {
    if (trained[i].name == name) return leaves_of(i);
  }
  throw_misuse(c10::str("DataParallel::parameters(\"", name,
                        "\"): no trained parameter has this name; named_parameters() lists them"));
}

std::vector<Parameter> Leaves::named() const {
  const ParameterPieces* const pieces = synchrony_.pieces();
  if (pieces == nullptr) return parts_.trained();
  std::vector<Parameter> leaves;
  for (const ParameterPiece& piece : pieces->own)
    leaves.push_back({parts_.dense[piece.parameter].name, piece.leaf});
  return leaves;
}

std::string Leaves::stranger_of(const torch::optim::Optimizer& optimizer) const {
  std::set<const c10::TensorImpl*> owned;
  for (const at::Tensor& leaf : synchrony_.leaves()) owned.insert(leaf.unsafeGetTensorImpl());
  const auto& groups = optimizer.param_groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t i = 0; i < groups[g].params().size(); ++i) {
      const at::Tensor& tensor = groups[g].params()[i];
      if (!tensor.grad().defined() || owned.contains(tensor.unsafeGetTensorImpl())) continue;
      for (const Parameter& frozen : parts_.frozen)
        if (frozen.tensor.is_same(tensor)) return c10::str("'", frozen.name, "'");
      return c10::str("parameter ", i, " of the optimizer's group ", g);
    }
  }
  return {};
}

void Leaves::refuse_stranger(const std::string& stranger) {
  throw_misuse(c10::str(
      stranger,
      " has a gradient of this rank alone, with which the optimizer would let the replicas drift "
      "apart: it was frozen when DataParallel was made, or came to the optimizer later. Unfreeze "
      "before DataParallel is made, or call rebind(group) afterwards; give a parameter that is "
      "not the model's an optimizer of its own; drop a gradient that is left over"));
}

}  // namespace paceline::replica
