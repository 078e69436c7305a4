// The problem of a linear model, as a value: minimise over the weights w
//
//   P(w) = (1/n) sum_i loss(x_i.w, y_i) + R(w),   R(w) = l2/2 |w|^2 + l1 |w|_1,
//
// over all n samples of all ranks. There is no intercept; a feature that is 1 in every row is one,
// and is regularised like the others. The worth of weights is measured in objective.h.
#pragma once

#include <span>

#include "paceline/linear/data/samples.h"
#include "paceline/linear/loss/loss.h"

namespace paceline::linear {

struct Problem {
  ChosenLoss loss;
  double l2 = 0, l1 = 0;
};

// R(w), and R*(v) = sup_w v.w - R(w) = |soft(v, l1)|^2 / (2 l2). Without l2, R* is 0 where no
// element of v is beyond l1, and infinite elsewhere.
double regulariser(const Problem& problem, std::span<const double> weights);
double regulariser_conjugate(const Problem& problem, std::span<const double> v);

// The soft threshold: v, moved towards 0 by `by`, but not beyond it.
double soft_threshold(double v, double by);

// Whether the loss can take these labels, the regularisation strengths are finite and not negative,
// and there are samples. A failure (misuse) names the first sample whose label is wrong, by its
// number from 1 on.
Result<> check_problem(const Problem& problem, const Samples& samples);

}  // namespace paceline::linear
