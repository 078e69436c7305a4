// A mixing graph out of a file of edges, with Metropolis weights.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "paceline/core/collective/mixing/mixing_graph.h"

namespace paceline::collective {

using Edges = std::vector<std::pair<int, int>>;  // between ranks; each once

// Two rank numbers a line, '#' begins a comment. A failure (misuse) names file and line: no
// numbers, an edge from a rank to itself, one that is there twice, more than 4096 ranks; or the
// file alone: it has more than 4 MiB, or does not connect all ranks from 0 to the highest.
Result<MixingGraph> read_edge_list(const std::string& path);

// Weights 1 / (1 + max of both ends' degrees); REQUIRES: edges as above.
MixingGraph metropolis_graph(std::string name, const Edges& edges);

}  // namespace paceline::collective
