// Rounds in which each rank moves weights of its own features one after the other, while the
// others' stay as they were, and all ranks' moves are then kept in part.
//
// With a share of 1/ranks the objective never rises: the new weights are the mean of vectors none
// of which is worse than the old ones, and the objective is convex. A share of 1 may oscillate for
// ever where features of two ranks resemble each other (Bradley, Kyrola, Bickson, Guestrin,
// Parallel Coordinate Descent for L1-Regularized Loss Minimization, ICML 2011).
#pragma once

#include <functional>
#include <memory>

#include "paceline/linear/solver/coordinate_block.h"
#include "paceline/linear/solver/solver.h"

namespace paceline::linear {

struct CoordinateRoundsOptions {
  double share = 1;  // gamma
  // Each round keeps the part of the moves, up to all of them, that is best for the objective. It
  // costs no more messages than 24 bytes, since all ranks know the predictions. REQUIRES: no l1.
  bool searches = false;
  double rate = 0;  // of every step; 0: 1/L_j
  // Samples that each step draws for its derivative; 0: it takes all. REQUIRES: a rate, if above 0.
  std::size_t samples = 0;
  // Step t of a rank, from 0, has rate decay_steps / (decay_steps + t); 0: rate.
  double decay_steps = 0;
  // The rank's features, counted from its first, in the order of the round's steps.
  std::function<std::vector<std::size_t>(const CoordinateBlock& block, std::int64_t round)> order;
};

std::unique_ptr<Solver> coordinate_rounds(CoordinateRoundsOptions options,
                                          const SolverContext& context);

// The settings of the methods that work so: the share, or the search for it.
Setting share_setting();
double share_in(const Settings& settings, const SolverContext& context);
Setting search_setting();
// THROWS Error (misuse): there is l1, or a share.
bool searches(const Settings& settings, const SolverContext& context);

}  // namespace paceline::linear
