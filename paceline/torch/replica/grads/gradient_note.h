// A note on a tensor whose gradient lies elsewhere, or in part on other ranks, so that whoever is
// given the tensor alone finds all of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace paceline {
struct NormShares;
}

namespace paceline::replica {

// Knows where the gradients of a model lie. Parameters are counted as ModelParts::trained() does.
class GradientOwner {
 public:
  virtual ~GradientOwner() = default;

  virtual std::string name_of(std::size_t parameter) const = 0;
  // The tensors that have this rank's part of the gradient in their grad.
  virtual std::vector<at::Tensor> leaves_of(std::size_t parameter) const = 0;
  // The norm of the whole gradient. Collective where ranks have parts of it.
  virtual double norm_of(std::size_t parameter, double norm_type) const = 0;
  // How ranks share all gradients.
  virtual NormShares norm_shares() const = 0;
  // THROWS Error (misuse): they are not the means of all ranks now. `call`: for the text.
  virtual void require_means(const char* call) const = 0;
};

// Notes point to it, and it outlives the owner.
struct NotedGradients {
  const GradientOwner* owner = nullptr;  // null: it has ended, and notes say nothing any more
};

struct GradientNote {
  std::shared_ptr<NotedGradients> of = {};  // null: there is no note
  std::size_t parameter = 0;
  const GradientOwner* owner() const { return of != nullptr ? of->owner : nullptr; }
};

// Writes it on the tensor, in the place of an earlier one.
void note_gradient(const at::Tensor& tensor, std::shared_ptr<NotedGradients> of,
                   std::size_t parameter);
GradientNote note_on(const at::Tensor& tensor);

// A tensor that stands in a parameter's grad while the gradient itself lies elsewhere: with a
// master, or in pieces on the ranks. It can do what clipping needs, norm() and multiplication in
// place, for all of the gradient; anything else is refused by name. So
// torch::nn::utils::clip_grad_norm_ over a model's parameters is right whoever has the gradients.
//
// Stands for the gradient of a tensor on which a note is; undefined where there is none. Where
// ranks have pieces of it, norm() is collective.
at::Tensor gradient_elsewhere(const at::Tensor& parameter);
bool is_elsewhere(const at::Tensor& gradient);
// The parameter has no grad any more, if it was such a tensor.
void drop_if_elsewhere(const at::Tensor& parameter);

}  // namespace paceline::replica
