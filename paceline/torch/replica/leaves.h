// The leaves that an optimizer steps: whole parameters, or this rank's pieces of them. They know
// where the gradients of a model lie, and the norm of all of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/torch/replica/clip_grad_norm.h"
#include "paceline/torch/replica/grads/gradient_note.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::replica {

class Leaves final : private GradientOwner {
 public:
  // They outlive this.
  Leaves(const ModelParts& parts, const Synchrony& synchrony);
  ~Leaves() override;
  Leaves(const Leaves&) = delete;
  Leaves& operator=(const Leaves&) = delete;

  std::vector<at::Tensor> all() const { return synchrony_.leaves(); }
  // Those of one parameter. THROWS Error (misuse): none has this name.
  std::vector<at::Tensor> of(const std::string& name) const;
  // They have the names that all ranks use.
  std::vector<Parameter> named() const;
  // Ranks have parts of gradients, along an axis or another.
  bool are_parts() const;
  // The last parameter whose gradient is not finite, which backward makes first.
  std::optional<std::size_t> first_not_finite() const;
  // A parameter with a gradient that is not averaged, and which `optimizer` would step; empty:
  // there is none.
  std::string stranger_of(const torch::optim::Optimizer& optimizer) const;
  // THROWS Error (misuse): that there is one.
  [[noreturn]] static void refuse_stranger(const std::string& stranger);
  // Scales as paceline::clip_grad_norm does, by the norm of all ranks' parts of the gradients.
  double clip(double max_norm) const;
  // THROWS Error (misuse): gradients are not the means of all ranks now.
  void require_means(const char* call) const override;

 private:
  std::string name_of(std::size_t parameter) const override;
  std::vector<at::Tensor> leaves_of(std::size_t parameter) const override;
  double norm_of(std::size_t parameter, double norm_type) const override;
  NormShares norm_shares() const override;
  void note_gradients();
  std::function<bool(const at::Tensor&)> counted() const;

  const ModelParts& parts_;
  const Synchrony& synchrony_;
  // Notes on the model's parameters and the leaves point to it; null: nothing is noted.
  std::shared_ptr<NotedGradients> noted_;
};

}  // namespace paceline::replica
