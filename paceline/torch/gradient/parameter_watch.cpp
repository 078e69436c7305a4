#include "paceline/torch/gradient/parameter_watch.h"

#include <torch/torch.h>

#include <cstring>

#include "paceline/core/base/base.h"

namespace paceline::parallel {
namespace {

// The bits of a few elements. libtorch's C++ SGD and clip_grad_norm_ write through `.data()`, which
// leaves the version counter alone, so the version does not show every optimizer step; values do,
// unless the gradient was zero in all of these places. 0: the memory is not there, as that of
// sharded parameters out of their use.
std::uint64_t probe(const at::Tensor& parameter) {
  constexpr std::size_t kProbes = 8;
  if (parameter.layout() != at::kStrided || !parameter.is_contiguous() || parameter.numel() == 0 ||
      parameter.storage().nbytes() == 0)
    return 0;
  const auto* bytes = static_cast<const std::byte*>(parameter.const_data_ptr());
  const std::size_t size = parameter.element_size(),
                    last = static_cast<std::size_t>(parameter.numel()) - 1;
  std::uint64_t fingerprint = 0;
  for (std::size_t k = 0; k < kProbes; ++k) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes + last * k / (kProbes - 1) * size, size);
    fingerprint = mix(fingerprint, bits);
  }
  return fingerprint;
}

}  // namespace

void ParameterWatch::gradient_made(std::size_t i) {
  const at::Tensor& tensor = parameters_[i].tensor;
  seen_[i].made = true;
  seen_[i].parameter_version = tensor._version();
  seen_[i].parameter_probe = probe(tensor);
  see_gradient(i);
  seen_[i].gradient_probe = probe(parameters_[i].tensor.grad());
}

void ParameterWatch::gradient_hidden(std::size_t i) {
  see_gradient(i);
  seen_[i].is_hidden = true;
}

void ParameterWatch::see_gradient(std::size_t i) {
  const at::Tensor& grad = parameters_[i].tensor.grad();
  seen_[i].gradient = grad.unsafeGetTensorImpl();
  seen_[i].gradient_version = grad._version();
}

std::string ParameterWatch::changed_parameter() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Seen& before = seen_[i];
    const at::Tensor& now = parameters_[i].tensor;
    if (!before.made) continue;
    if (now._version() != before.parameter_version) return parameters_[i].name;
    const std::uint64_t values = probe(now);
    if (values != before.parameter_probe && values != 0 && before.parameter_probe != 0)
      return parameters_[i].name;
  }
  return {};
}

std::string ParameterWatch::complaint() const {
  if (const std::string name = changed_parameter(); !name.empty()) {
    return c10::str(
        "the optimizer stepped without synchronize(), or something else wrote to the parameters: '",
        name,
        "' changed between backward() and synchronize(). Call parallel.step(optimizer) instead of "
        "optimizer.step(), or synchronize() before it");
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Seen& before = seen_[i];
    if (!before.made) continue;
    const at::Tensor& grad = parameters_[i].tensor.grad();
    if (!grad.defined() || grad.unsafeGetTensorImpl() != before.gradient ||
        grad._version() != before.gradient_version ||
        (!before.is_hidden && probe(grad) != before.gradient_probe)) {
      return c10::str("the gradient of '", parameters_[i].name,
                      "' was changed or dropped between backward() and synchronize(), while it was "
                      "being averaged. Set, clip or zero gradients before backward() or after "
                      "synchronize()");
    }
  }
  return {};
}

}  // namespace paceline::parallel
