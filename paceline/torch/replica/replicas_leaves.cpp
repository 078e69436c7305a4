// The leaves that an optimizer steps: whole parameters, or this rank's pieces of them.
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <set>
#include <unordered_set>

#include "paceline/core/base/base.h"
#include "paceline/torch/replica/clip_grad_norm.h"
#include "paceline/torch/replica/replicas.h"

namespace paceline::parallel {

void Replicas::require_means(const char* call) const {
  if (synchrony().in_step()) {
    throw_misuse(c10::str(call,
                          "() was called between backward() and synchronize(), where the gradients "
                          "are not those of the global batch yet: call synchronize() first"));
  }
  if (synchrony().is_under_way()) {
    throw_misuse(c10::str(
        call,
        "(): gradients of the last step are under way, each to be applied when its parameter is "
        "used: a schedule that crosses the barrier has no norm of all of them. Clip with "
        "step(optimizer), or leave DataParallelOptions::optimizer out"));
  }
}

double Replicas::clip_grad_norm(double max_norm) {
  require_means("DataParallel::clip_grad_norm");
  const double norm = clip_leaves(max_norm);
  if (std::isfinite(norm)) return norm;
  if (synchrony().keeps_gradients()) {
    if (finite_.skips()) return norm;  // step() leaves them out, with all ranks
    throw_misuse(text_on(agreed_first(), report_.step + 1));
  }
  EndedStep ended;
  leave_out(ended, report_.step, /*is_refused=*/true);
  refuse(ended);
  return norm;
}

// Scales as paceline::clip_grad_norm does, by the norm of all ranks' parts of the gradients.
double Replicas::clip_leaves(double max_norm) {
  return paceline::clip_grad_norm(synchrony().leaves(), max_norm, {.refuse_non_finite = false},
                                  norm_shares());
}

NormShares Replicas::norm_shares() const {
  NormShares shares;
  if (const ParameterPieces* const pieces = synchrony().pieces())
    shares.groups.push_back(pieces->ranks);
  if (Communicator* const group = parts_.placements.group()) {
    shares.groups.push_back(group);
    shares.is_counted = counted_leaves();
  }
  return shares;
}

std::string Replicas::name_of(std::size_t parameter) const {
  return parts_.trained()[parameter].name;
}

double Replicas::norm_of(std::size_t parameter, double norm_type) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return paceline::clip_grad_norm(leaves_of(parameter), kInfinity,
                                  {.norm_type = norm_type, .refuse_non_finite = false},
                                  norm_shares());
}

std::vector<at::Tensor> Replicas::leaves_of(std::size_t parameter) const {
  const ParameterPieces* const pieces = synchrony().pieces();
  if (pieces == nullptr) return {parts_.trained()[parameter].tensor};
  const ParameterPiece* const piece = pieces->find(parameter);
  return piece == nullptr ? std::vector<at::Tensor>() : std::vector{piece->leaf};
}

// A function that is given a parameter alone, as clip_grad_norm is, finds its gradient by the note.
void Replicas::note_gradients() {
  const ParameterPieces* const pieces = synchrony().pieces();
  if (pieces == nullptr && parts_.placements.group() == nullptr && masters().empty()) return;
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
std::function<bool(const at::Tensor&)> Replicas::counted_leaves() const {
  const ParameterPieces* const pieces = synchrony().pieces();
  if (pieces == nullptr)
    return [this](const at::Tensor& parameter) { return parts_.placements.is_counted(parameter); };
  std::unordered_set<const c10::TensorImpl*> counted;
  for (const ParameterPiece& piece : pieces->own)
    if (parts_.placements.is_counted(parts_.dense[piece.parameter].tensor))
      counted.insert(piece.leaf.unsafeGetTensorImpl());
  return [counted](const at::Tensor& leaf) { return counted.contains(leaf.unsafeGetTensorImpl()); };
}

std::vector<at::Tensor> Replicas::parameters(const std::string& name) const {
  const std::vector<Parameter> trained = parts_.trained();
  for (std::size_t i = 0; i < trained.size(); ++i) {
    if (trained[i].name == name) return leaves_of(i);
  }
  throw_misuse(c10::str("DataParallel::parameters(\"", name,
                        "\"): no trained parameter has this name; named_parameters() lists them"));
}

// The leaves by the names that all ranks use.
std::vector<Parameter> Replicas::named_leaves() const {
  const ParameterPieces* const pieces = synchrony().pieces();
  if (pieces == nullptr) return parts_.trained();
  std::vector<Parameter> leaves;
  for (const ParameterPiece& piece : pieces->own)
    leaves.push_back({parts_.dense[piece.parameter].name, piece.leaf});
  return leaves;
}

// The parameter, if any, that has a gradient and which `optimizer` would step although its
// gradient is not averaged.
std::string Replicas::stranger_of(const torch::optim::Optimizer& optimizer) const {
  std::set<const c10::TensorImpl*> owned;
  for (const at::Tensor& leaf : synchrony().leaves()) owned.insert(leaf.unsafeGetTensorImpl());
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

}  // namespace paceline::parallel
