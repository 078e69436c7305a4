#include "paceline/torch/pipeline/recompute/captured_tensors.h"

#include <ATen/record_function.h>
#include <torch/torch.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace paceline {
namespace {

const void* storage_address(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return nullptr;
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

std::uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version());
}

// The operators of normalisation write to their running statistics without telling autograd.
bool is_running_statistic(const at::RecordFunction& function, std::size_t index) {
  constexpr std::size_t kMean = 3, kVariance = 4, kTrains = 5;
  if (index != kMean && index != kVariance) return false;
  const std::string_view name = function.name();
  if (name != "aten::batch_norm" && name != "aten::native_batch_norm" &&
      name != "aten::instance_norm")
    return false;
  const auto arguments = function.inputs();
  return arguments.size() > kTrains && arguments[kTrains].isBool() && arguments[kTrains].toBool();
}

bool is_among(const std::vector<at::Tensor>& tensors, const at::Tensor& one) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const at::Tensor& other) {
    if (!other.defined()) return false;
    return one.is_same(other) ||
           (storage_address(one) != nullptr && storage_address(one) == storage_address(other));
  });
}

std::string changed_among(const std::vector<CapturedTensor>& all, const char* kind) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const at::Tensor now = all[i].lock();
    if (now.defined() && !all[i].is_unchanged(now))
      return c10::str(kind, " ", i, " (", describe(now), ")");
  }
  return "";
}

}  // namespace

CapturedTensor::CapturedTensor(const at::Tensor& captured)
    : tensor(captured.getIntrusivePtr()),
      version(version_of(captured)),
      memory(storage_address(captured)) {}

at::Tensor CapturedTensor::lock() const {
  auto strong = tensor.lock();
  return strong ? at::Tensor(std::move(strong)) : at::Tensor();
}

bool CapturedTensor::is_unchanged(const at::Tensor& now) const {
  return version_of(now) == version && storage_address(now) == memory;
}

std::string CapturedTensors::changed() const {
  const std::string parameter = changed_among(parameters, "parameter");
  return parameter.empty() ? changed_among(constants, "constant") : parameter;
}

CaptureWatch::CaptureWatch(const std::vector<at::Tensor>& inputs) : inputs_(inputs) {}

void CaptureWatch::look_at(const at::Tensor& input, const Argument& argument) {
  if (!input.defined()) return;
  const auto [found, is_new] = places_.emplace(input.unsafeGetTensorImpl(), seen_.size());
  if (is_new) {
    const bool is_parameter = input.requires_grad() && input.is_leaf();
    seen_.push_back({CapturedTensor(input), is_parameter});
    // The function's own tensors are part of no graph, as it is not recorded.
    if (input.requires_grad() && !is_parameter && !at::GradMode::is_enabled())
      graph_tensor_ = describe(input);
  }
  if (is_running_statistic(argument.function, argument.index))
    seen_[found->second].is_written = true;
}

CapturedTensors CaptureWatch::captured(const std::vector<at::Tensor>& outputs) const {
  CapturedTensors captured;
  for (const Seen& one : seen_) {
    const at::Tensor now = one.tensor.lock();
    if (!now.defined() || is_among(inputs_, now)) continue;
    const bool is_written = one.is_written || !one.tensor.is_unchanged(now);
    if (one.is_parameter) captured.parameters.push_back(one.tensor);
    else if (is_written) captured.written.push_back(one.tensor);
    else if (!is_among(outputs, now)) captured.constants.push_back(one.tensor);
  }
  return captured;
}

}  // namespace paceline
