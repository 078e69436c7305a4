// The exchange of a mixing graph as programs: whose vectors each rank sends and receives.
#pragma once

#include <vector>

#include "paceline/core/collective/mixing/mixing_graph.h"
#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

// The programs of all ranks, with a round for each round of a period. Chunk s is rank s's vector as
// it is in that round: input(s) on rank s, output(s) on those that receive it. A program has no
// weights: when a round has ended, the rank's row of it (mixing_graph.h) says what to add. In each
// round the peers come by their distance ahead, so that a rank's k-th message goes where everyone's
// k-th goes, on a graph that looks alike from each rank, and no rank is the first of all.
// REQUIRES: graph.check(ranks).
std::vector<Program> mixing_programs(const MixingGraph& graph, int ranks);

}  // namespace paceline::collective
