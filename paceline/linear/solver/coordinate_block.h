// Some features of a linear model, with all samples' predictions: steps that each move one weight.
//
// A step replaces w_j by soft_threshold(w_j - rate d_j, rate l1), where d_j is the derivative of
// the mean loss and l2/2 w_j^2. With the rate 1/L_j, L_j = beta (1/n) sum_i x_ij^2 + l2 and beta
// the loss's smoothness, no step raises the objective (stochastic coordinate descent, SCD).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "paceline/linear/data/sparse_columns.h"
#include "paceline/linear/problem/problem.h"

namespace paceline::linear {

class CoordinateBlock {
 public:
  // `columns` have a row for each label. The weights begin at 0. REQUIRES: the loss is smooth. The
  // references outlive the block.
  CoordinateBlock(const Problem& problem, SparseColumns columns, std::span<const double> labels);

  std::size_t size() const { return columns_.size(); }
  // L_j; it is 0 for a feature that no sample has, without l2.
  std::span<const double> curvatures() const { return curvatures_; }

  void step(std::size_t j, double rate);
  void step(std::size_t j);  // at the rate 1/L_j
  // This step estimates d_j by the mean over these samples alone, of which some may be named twice
  // (doubly stochastic, if they are drawn). REQUIRES: there are some.
  void step(std::size_t j, double rate, std::span<const std::size_t> samples);

  std::vector<double> weights;      // one for each column
  std::vector<double> predictions;  // one for each sample; other blocks' features count too

 private:
  void move(std::size_t j, double rate, double slope_of_loss);

  const Problem& problem_;
  const SparseColumns columns_;
  const std::span<const double> labels_;
  std::vector<double> curvatures_;
};

}  // namespace paceline::linear
