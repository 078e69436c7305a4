// The names by which an optimizer's parameters are saved: those that they have in a model.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>

namespace paceline::checkpointing {

class ParameterNames {
 public:
  void add(const at::Tensor& tensor, std::string name) {
    names_.emplace(tensor.unsafeGetTensorImpl(), std::move(name));
  }
  // Empty: it is in no model.
  const std::string& of(const at::Tensor& tensor) const {
    static const std::string none;
    const auto found = names_.find(tensor.unsafeGetTensorImpl());
    return found == names_.end() ? none : found->second;
  }

 private:
  std::unordered_map<const c10::TensorImpl*, std::string> names_;
};

}  // namespace paceline::checkpointing
