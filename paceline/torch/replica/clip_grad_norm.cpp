#include "paceline/torch/replica/clip_grad_norm.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/replica/grads/gradient_note.h"

namespace paceline {
namespace {

// NaN wins, as in libtorch's max.
double larger(double a, double b) {
  return a > b || std::isnan(a) ? a : b;
}
double added(double a, double b) {
  return a + b;
}

template <typename T>
double part_of(const at::Tensor& grad, double p) {
  const auto* values = grad.numel() == 0 ? nullptr : grad.const_data_ptr<T>();
  const auto count = static_cast<std::size_t>(grad.numel());
  const auto value = [=](std::size_t i) { return static_cast<double>(values[i]); };
  const auto magnitude = [=](std::size_t i) { return std::fabs(value(i)); };
  if (std::isinf(p)) return ordered_fold(count, magnitude, larger);
  if (p == 2)
    return ordered_fold(
        count, [=](std::size_t i) { return value(i) * value(i); }, added);
  if (p == 1) return ordered_fold(count, magnitude, added);
  return ordered_fold(
      count, [=](std::size_t i) { return std::pow(magnitude(i), p); }, added);
}

// The same as part_of() for gradients on a device, computed there in float64.
at::Tensor part_on_device(const at::Tensor& grad, double p) {
  const at::Tensor norm = at::linalg_vector_norm(grad, p, c10::nullopt, false, at::kDouble);
  return std::isinf(p) ? norm : norm.pow(p);
}

double part_of(const at::Tensor& grad, double p) {
  switch (grad.scalar_type()) {
    case at::kDouble: return part_of<double>(grad, p);
    case at::kFloat: return part_of<float>(grad, p);
    case at::kBFloat16: return part_of<at::BFloat16>(grad, p);
    case at::kHalf: return part_of<at::Half>(grad, p);
    default:
      throw_misuse("clip_grad_norm: a gradient " + describe(grad) + " is not of a floating type");
  }
}

// Gradients of which ranks have shares.
struct Part {
  std::vector<at::Tensor> parameters;
  NormShares shares = {};
};

// The grads that there are; sparse ones are coalesced first.
std::vector<at::Tensor> grads_of(const Part& part, std::vector<bool>& is_counted) {
  std::vector<at::Tensor> grads;
  for (const at::Tensor& parameter : part.parameters) {
    if (!parameter.grad().defined()) continue;
    is_counted.push_back(!part.shares.is_counted || part.shares.is_counted(parameter));
    at::Tensor& grad = parameter.mutable_grad();
    if (grad.layout() == at::kSparse && !grad.is_coalesced()) grad = grad.coalesce();
    grads.push_back(grad);
  }
  return grads;
}

// The part's share in the norm of all gradients as one vector, over all ranks that share it.
double share_of(const Part& part, std::vector<at::Tensor>& all, const ClipOptions& options) {
  const bool largest = std::isinf(options.norm_type);
  std::vector<bool> is_counted;
  const std::vector<at::Tensor> grads = grads_of(part, is_counted);
  double whole = 0;
  const auto add = [&](double one) { whole = largest ? larger(whole, one) : whole + one; };
  std::vector<at::Tensor> on_device;  // read at once: each reading waits for the device
  for (std::size_t i = 0; i < grads.size(); ++i) {
    all.push_back(grads[i]);
    if (!is_counted[i]) continue;
    const at::Tensor values = grads[i].layout() == at::kSparse ? grads[i].values() : grads[i];
    if (values.is_cpu()) add(part_of(values.contiguous(), options.norm_type));
    else on_device.push_back(part_on_device(values, options.norm_type));
  }
  if (!on_device.empty()) {
    const at::Tensor read = at::stack(on_device).cpu();
    for (std::int64_t i = 0; i < read.numel(); ++i) add(read[i].item<double>());
  }
  for (Communicator* const group : part.shares.groups)
    whole = group->all_reduce(whole, largest ? ReduceOp::max : ReduceOp::sum);
  return whole;
}

double clip(const std::vector<Part>& parts, double max_norm, const ClipOptions& options) {
  if (!(max_norm >= 0) || !(options.norm_type > 0)) {
    throw_misuse(c10::str("clip_grad_norm(max_norm ", max_norm, ", norm_type ", options.norm_type,
                          "): max_norm must not be negative, and norm_type must be positive"));
  }
  const at::NoGradGuard no_grad;
  const bool largest = std::isinf(options.norm_type);
  std::vector<at::Tensor> grads;
  double whole = 0;
  for (const Part& part : parts) {
    const double share = share_of(part, grads, options);
    whole = largest ? larger(whole, share) : whole + share;
  }
  const double norm = largest ? whole : std::pow(whole, 1 / options.norm_type);
  if (!std::isfinite(norm)) {
    if (!options.refuse_non_finite) return norm;
    throw_misuse(
        c10::str("clip_grad_norm: the norm of the gradients is ", norm,
                 "; look at the step's loss, or pass refuse_non_finite = false and skip the step"));
  }
  const double factor = std::min(1.0, max_norm / (norm + 1e-6));
  for (at::Tensor& grad : grads) grad.mul_(factor);
  return norm;
}

// One part for each DataParallel that has noted where gradients lie, in the order of the
// parameters, behind those of which nobody has.
std::vector<Part> parts_of(const std::vector<at::Tensor>& parameters) {
  std::vector<Part> parts(1);
  std::vector<const replica::GradientOwner*> owners = {nullptr};
  std::unordered_set<const c10::TensorImpl*> taken;
  for (const at::Tensor& parameter : parameters) {
    const replica::GradientNote note = replica::note_on(parameter);
    const replica::GradientOwner* const owner = note.owner();
    std::vector<at::Tensor> leaves = {parameter};
    if (owner != nullptr) leaves = owner->leaves_of(note.parameter);
    auto place = std::ranges::find(owners, owner);
    if (place == owners.end()) {
      owner->require_means("clip_grad_norm");
      parts.push_back({.parameters = {}, .shares = owner->norm_shares()});
      owners.push_back(owner);
      place = owners.end() - 1;
    }
    Part& part = parts[static_cast<std::size_t>(place - owners.begin())];
    for (const at::Tensor& leaf : leaves)
      if (taken.insert(leaf.unsafeGetTensorImpl()).second) part.parameters.push_back(leaf);
  }
  return parts;
}

}  // namespace

void scale_grads(const std::vector<at::Tensor>& parameters, double factor) {
  const at::NoGradGuard no_grad;
  for (const Part& part : parts_of(parameters))
    for (const at::Tensor& leaf : part.parameters)
      if (leaf.grad().defined()) leaf.mutable_grad().mul_(factor);
}

double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                      const ClipOptions& options) {
  return clip(parts_of(parameters), max_norm, options);
}

double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                      const ClipOptions& options, const NormShares& shares) {
  return clip({{parameters, shares}}, max_norm, options);
}

}  // namespace paceline
