// The rounds that CoCoA and CoCoA+ share: each rank makes a pass of SDCA over its samples, and the
// ranks' moves of the weights are added, each times a share.
#pragma once

#include <memory>

#include "paceline/linear/solver/solver.h"

namespace paceline::linear {

struct CocoaShares {
  double share = 1;    // gamma: the part of each rank's move that is kept
  double stretch = 1;  // sigma': how many ranks' moves a rank's own steps allow for
};

// Diverges unless stretch is at least share times the number of ranks, or the ranks' samples have
// little in common.
std::unique_ptr<Solver> cocoa_rounds(const CocoaShares& shares, const Settings& settings,
                                     const SolverContext& context);

// Both methods' settings: how many passes over the rank's samples a round has, and their order.
std::vector<Setting> cocoa_settings();

}  // namespace paceline::linear
