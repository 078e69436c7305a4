// The text of `paceline programs show` for a mixing graph.
#pragma once

#include <string>

#include "paceline/core/collective/mixing/mixing_graph.h"
#include "paceline/core/collective/proof/mixing_proof.h"

namespace paceline::cli {

// "8 messages and 1 vector from the busiest rank a step"
std::string graph_cost(const collective::MixingProof& proof);

// Two lines: the cost, and what is proved of the weights.
std::string graph_header(const collective::MixingGraph& graph, int ranks,
                         const collective::MixingProof& proof);

// A line for each rank and each round of a period: "rank 0: x0 = 0.5 x0 + 0.5 x7". All ranks if
// `rank` is -1; a text that is too long to read says how to see less at a time.
std::string graph_weights(const collective::MixingGraph& graph, int ranks, int rank);

}  // namespace paceline::cli
