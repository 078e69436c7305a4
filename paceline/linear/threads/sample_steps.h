// Steps of stochastic gradient descent that read and write the weights of one sample's own features
// alone, so that threads which work on different samples seldom meet.
//
// A step on sample i takes g = loss'(x_i.w, y_i) and moves each feature j of x_i:
//
//   w_j -= (rate g x_ij + rate r_j w_j) / (1 + rate r_j),   r_j = l2 n / n_j,
//
// n_j being the number of samples that have the feature. A feature that few samples have so gets
// its whole share of the regulariser from these, as in Niu, Recht, Re, Wright, Hogwild!, NeurIPS
// 2011. Unlike there, the regulariser's step is implicit (the divisor): with l2 = 1e-3, the word of
// one verse in 28,000 has r_j = 28, and an explicit step would diverge at any rate above 1 / 14.
#pragma once

#include <vector>

#include "paceline/linear/data/samples.h"
#include "paceline/linear/problem/problem.h"

namespace paceline::linear {

// THREAD: any number may call step(), while none calls set_rate(). The references outlive it.
class SampleSteps {
 public:
  // REQUIRES: no l1.
  SampleSteps(const Problem& problem, const Samples& samples);

  void set_rate(double rate) { rate_ = rate; }  // of the next steps

  // `weights`: a view of shared_weights.h.
  template <typename Weights>
  void step(std::size_t i, const Weights& weights) const {
    const SparseVector row = samples_.rows.row(i);
    double prediction = 0;
    for (std::size_t k = 0; k < row.entries(); ++k)
      prediction += row.values[k] * weights.load(row.indices[k]);
    const double move = rate_ * loss_.derivative(prediction, samples_.labels[i]);
    for (std::size_t k = 0; k < row.entries(); ++k) {
      const std::uint32_t j = row.indices[k];
      const double strength = rate_ * regularisers_[j], shrink = 1 / (1 + strength);
      weights.add(j, -shrink * (move * row.values[k] + strength * weights.load(j)));
    }
  }

 private:
  const ChosenLoss& loss_;
  const Samples& samples_;
  std::vector<double> regularisers_;  // r_j
  double rate_ = 0;
};

}  // namespace paceline::linear
