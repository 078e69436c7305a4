// The names by which an optimizer's parameters are saved: those that they have in a model. Where
// ranks divide parameters, an optimizer has pieces of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace paceline::checkpointing {

class ParameterNames {
 public:
  void add(const at::Tensor& tensor, std::string name) {
    names_.emplace(tensor.unsafeGetTensorImpl(), std::move(name));
  }
  void add_piece(const at::Tensor& piece, const at::Tensor& parameter) {
    parameters_.emplace(piece.unsafeGetTensorImpl(), parameter);
  }
  // Other ranks have all pieces of the parameter.
  void add_elsewhere(const at::Tensor& parameter) { elsewhere_.push_back(parameter); }

  // Other stages of a pipeline have it.
  void add_elsewhere(std::string name) { other_stages_.push_back(std::move(name)); }

  // Empty: it is in no model.
  const std::string& of(const at::Tensor& tensor) const {
    static const std::string none;
    const auto piece = parameters_.find(tensor.unsafeGetTensorImpl());
    const at::Tensor& parameter = piece == parameters_.end() ? tensor : piece->second;
    const auto found = names_.find(parameter.unsafeGetTensorImpl());
    return found == names_.end() ? none : found->second;
  }
  bool has_pieces() const {
    return !parameters_.empty() || !elsewhere_.empty() || !other_stages_.empty();
  }
  std::vector<std::string> elsewhere() const {
    std::vector<std::string> names = other_stages_;
    for (const at::Tensor& parameter : elsewhere_) names.push_back(of(parameter));
    return names;
  }

 private:
  std::unordered_map<const c10::TensorImpl*, std::string> names_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> parameters_;  // by piece
  std::vector<at::Tensor> elsewhere_;
  std::vector<std::string> other_stages_;
};

}  // namespace paceline::checkpointing
