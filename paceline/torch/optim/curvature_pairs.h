// The last moves of an optimizer and what they did to the gradient: the memory of L-BFGS
// (Liu, Nocedal, "On the limited memory BFGS method for large scale optimization", 1989).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "paceline/torch/optim/flat_parameters.h"

namespace paceline::optimizers {

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

}  // namespace paceline::optimizers
