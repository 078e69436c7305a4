// Proof that a mixing graph is what it claims, and that its exchange cannot hang.
#pragma once

#include "paceline/core/base/result.h"
#include "paceline/core/collective/mixing/mixing_graph.h"

namespace paceline::collective {

struct MixingProof {
  int period = 1;     // rounds after which the graph repeats itself
  long messages = 0;  // of all ranks in a period
  long sent = 0;      // vectors that the busiest rank sends in a period
  double rate = 0;    // mixing_rate
};

// Proves for one number of ranks, in every round of a period: no weight is negative, every rank
// keeps part of its own vector, rows and columns sum to one (to 1e-15 for each rank), weights are
// symmetric if the graph claims so, round `period` is round 0 again; each send meets its receive,
// which takes the sender's vector as it is then, and nothing can deadlock (matching.h); over the
// period every rank's vector reaches every other. The failure (misuse) names graph, ranks and
// round.
Result<MixingProof> verify(const MixingGraph& graph, int ranks);

}  // namespace paceline::collective
