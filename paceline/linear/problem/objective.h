// The worth of weights: the objective, a lower bound of the optimum that proves how far they are
// from it, and how many labels they get right.
#pragma once

#include <optional>
#include <span>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/linear/problem/problem.h"

namespace paceline::linear {

struct Objective {
  double primal = 0;
  // D(a) = -(1/n) sum_i loss*(-a_i) - R*((1/n) sum_i a_i x_i), which is never above the optimum.
  double dual = 0;
  double gap() const { return primal - dual; }  // at least 0, but for rounding
};

// Blocks; every rank of the group calls it, with the same weights and its own part of the samples,
// and gets the same result. `dual_variables`: one for each of these samples, or none: then they are
// -loss'(x_i.w), for which the gap closes too as the weights reach the optimum of a smooth loss.
// Without l2 they are shortened until R* is finite. `total`: n, samples of all ranks.
Objective objective(const Problem& problem, const Samples& own, std::size_t total,
                    std::span<const double> weights, std::span<const double> dual_variables,
                    Communicator& group);

// The share of the samples whose label has the sign of the prediction, where 0 counts as -1.
// Nothing: some label is not -1 or 1. Blocks, as above.
std::optional<double> accuracy(const Samples& own, std::span<const double> weights,
                               Communicator& group);

}  // namespace paceline::linear
