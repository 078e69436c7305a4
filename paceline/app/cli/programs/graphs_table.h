// The mixing graphs as a table: what a step of each costs, and how fast it brings replicas
// together.
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

}  // namespace paceline::cli
