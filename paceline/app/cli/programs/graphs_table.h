// The mixing graphs as a table (what a step of each costs, and how fast it brings replicas
// together), and the text of one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/collective/mixing/mixing_graph.h"
#include "paceline/core/collective/proof/mixing_proof.h"

namespace paceline::cli {

struct GraphRow {
  collective::MixingGraph graph;
  std::optional<collective::MixingProof> proof;  // none: it has no such number of ranks

  // In a step: a round of the period, on average. REQUIRES: a proof.
  double messages() const { return static_cast<double>(proof->messages) / proof->period; }
  double sent() const { return static_cast<double>(proof->sent) / proof->period; }
};

std::vector<GraphRow> graph_rows(const std::vector<collective::MixingGraph>& graphs, int ranks);
std::string graphs_table(const std::vector<GraphRow>& rows, int ranks);

// The text of `paceline programs show`.
//
// "8 messages and 1 vector from the busiest rank a step"
std::string graph_cost(const collective::MixingProof& proof);

// Two lines: the cost, and what is proved of the weights.
std::string graph_header(const collective::MixingGraph& graph, int ranks,
                         const collective::MixingProof& proof);

// A line for each rank and each round of a period: "rank 0: x0 = 0.5 x0 + 0.5 x7". All ranks if
// `rank` is -1; a text that is too long to read says how to see less at a time.
std::string graph_weights(const collective::MixingGraph& graph, int ranks, int rank);

}  // namespace paceline::cli
