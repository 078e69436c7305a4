// The last moves of an optimizer and what they did to the gradient: the memory of L-BFGS
// (Liu, Nocedal, "On the limited memory BFGS method for large scale optimization", 1989).
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <vector>

namespace paceline::optimizers {

// All parameters of an optimizer as one vector, in the order of its groups.
class FlatParameters {
 public:
  // THROWS Error (misuse): there are none, or they are not of one floating type in host memory.
  explicit FlatParameters(const std::vector<torch::optim::OptimizerParamGroup>& groups);

  std::int64_t size() const { return size_; }
  at::Tensor zeros(std::int64_t rows) const;  // rows x size, of the parameters' type

  at::Tensor values() const;  // a copy
  void assign(const at::Tensor& values) const;
  // A copy of the grads; zeros where a parameter has none.
  at::Tensor gradient() const;
  // Those of this vector, in the shapes of the parameters.
  std::vector<at::Tensor> parts(const at::Tensor& vector) const;
  const std::vector<at::Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<at::Tensor> tensors_;
  std::int64_t size_ = 0;
};

// Whether a pair tells a positive curvature: s.y > 1e-10 |s| |y|. Other pairs are skipped, since
// they would take the inverse Hessian its definiteness.
bool has_curvature(const at::Tensor& s, const at::Tensor& y);

class CurvaturePairs {
 public:
  // Memory for `most` pairs, of which an older one gives way to a new one.
  CurvaturePairs(const FlatParameters& parameters, std::int64_t most);

  // Adds the move s and the change y of the gradient. False: it is skipped.
  bool add(const at::Tensor& s, const at::Tensor& y);
  std::int64_t size() const;

  enum class Beginning { identity, scaled };
  // The product of the inverse Hessian with a vector, by the two-loop recursion. It begins with I,
  // or with (s.y / y.y) I of the newest pair. Without pairs: the vector.
  at::Tensor times(const at::Tensor& vector, Beginning beginning = Beginning::scaled) const;

  // For checkpoints: names all that goes on from step to step.
  template <typename Fields>
  void state(Fields& fields) {
    fields("pairs", added_);
    fields("products", products_);
    fields("moves", s_);
    fields("changes", y_);
  }

 private:
  std::int64_t row(std::int64_t age) const;  // age 0: the newest

  at::Tensor s_, y_;              // most x d
  std::vector<double> products_;  // s.y by row
  std::int64_t added_ = 0;
};

// The inverse Hessian as a matrix, and the two updates that make it agree with a move s and the
// change y of the gradient: afterwards H y = s (the secant equation), H stays symmetric, and
// definite where s.y > 0.
//
// H v, with the same bits on all ranks. H: d x d.
at::Tensor product_of(const at::Tensor& h, const at::Tensor& v);

// H += (1 + r y.Hy) r s s^T - r (s (Hy)^T + (Hy) s^T), r = 1 / s.y. Broyden, Fletcher, Goldfarb,
// Shanno, 1970.
void update_by_bfgs(at::Tensor& h, const at::Tensor& s, const at::Tensor& y);

// H += s s^T / s.y - (Hy) (Hy)^T / y.Hy. Davidon, 1959; Fletcher, Powell, 1963.
void update_by_dfp(at::Tensor& h, const at::Tensor& s, const at::Tensor& y);

}  // namespace paceline::optimizers
