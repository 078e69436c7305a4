#include "paceline/torch/replica/clip_grad_norm.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

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

// The norm of all gradients as one vector, over all ranks that share them.
double norm_of(const std::vector<at::Tensor>& grads, const std::vector<bool>& is_counted,
               const ClipOptions& options, const NormShares& shares) {
  const bool largest = std::isinf(options.norm_type);
  double whole = 0;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (!is_counted[i]) continue;
    const at::Tensor values = grads[i].layout() == at::kSparse ? grads[i].values() : grads[i];
    const double part = part_of(values.contiguous(), options.norm_type);
    whole = largest ? larger(whole, part) : whole + part;
  }
  for (Communicator* const group : shares.groups)
    whole = group->all_reduce(whole, largest ? ReduceOp::max : ReduceOp::sum);
  return largest ? whole : std::pow(whole, 1 / options.norm_type);
}

}  // namespace

double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                      const ClipOptions& options) {
  return clip_grad_norm(parameters, max_norm, options, {});
}

double clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                      const ClipOptions& options, const NormShares& shares) {
  if (!(max_norm >= 0) || !(options.norm_type > 0)) {
    throw_misuse(c10::str("clip_grad_norm(max_norm ", max_norm, ", norm_type ", options.norm_type,
                          "): max_norm must not be negative, and norm_type must be positive"));
  }
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> grads;
  std::vector<bool> is_counted;
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    is_counted.push_back(!shares.is_counted || shares.is_counted(parameter));
    at::Tensor& grad = const_cast<at::Tensor&>(parameter).mutable_grad();
    if (grad.layout() == at::kSparse && !grad.is_coalesced()) grad = grad.coalesce();
    grads.push_back(grad);
  }
  const double norm = norm_of(grads, is_counted, options, shares);
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

}  // namespace paceline
