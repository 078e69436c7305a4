// Mixing graphs as values: with whom each rank mixes its vector in a round, and with which weights.
//
// In round k rank r takes x_r' = own x_r + sum of weight x_s over its row. Sources: Lian et al.,
// Can Decentralized Algorithms Outperform Centralized Algorithms?, NeurIPS 2017 (ring, torus); Ying
// et al., Exponential Graph is Provably Efficient for Decentralized Deep Training, NeurIPS 2021
// (exponential, one_peer); Xiao, Boyd, Fast Linear Iterations for Distributed Averaging, 2004
// (Metropolis weights of a list of edges).
//
// mixing_program.h makes programs of a graph, and proof/mixing_proof.h proves it.
//
// CMake lists graphs/*.cpp and generates built_in_mixing_graphs(); file <name>.cpp defines
// `MixingGraph <name>()` in namespace paceline::collective::catalogue.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline::collective {

struct MixingTerm {
  int peer = 0;
  double weight = 0;
  bool operator==(const MixingTerm&) const = default;
};

// One rank's part of one round.
struct MixingRow {
  double own = 1;
  std::vector<MixingTerm> from;  // by rank, each once, never this rank itself
  std::vector<int> to;           // those that need this rank's vector, by rank
  bool operator==(const MixingRow&) const = default;
};

struct MixingGraph {
  std::string name, summary;
  // Both ends of each edge mix with each other, with equal weights.
  bool is_symmetric = true;
  // Rounds after which it repeats itself; at least 1.
  std::function<int(int ranks)> rounds = [](int) { return 1; };
  // A failure (misuse) tells which numbers of ranks it has, and what to take instead.
  std::function<Result<>(int ranks)> check = [](int) -> Result<> { return Done{}; };
  // The terms of one rank's row. REQUIRES: check(ranks); 0 <= rank < ranks; round >= 0.
  std::function<std::vector<MixingTerm>(int ranks, int round, int rank)> terms;

  // The rows of all ranks, which cost no more than one. REQUIRES: as above.
  std::vector<MixingRow> rows(int ranks, int round) const;
  MixingRow row(int ranks, int round, int rank) const;
};

std::vector<MixingGraph> built_in_mixing_graphs();  // sorted by name
const std::vector<MixingGraph>& mixing_graphs();    // the same, made once

// A graph by its name, or "@FILE" of edges: two rank numbers a line, '#' begins a comment. A
// failure (misuse) lists the known names, or tells file and line.
Result<MixingGraph> parse_mixing_graph(std::string_view text);

// The weights of a round as rows: matrix[r * ranks + s] is that of rank s's vector on rank r.
std::vector<double> mixing_matrix(const MixingGraph& graph, int ranks, int round);

// |W - 1 1^T / n|_2 of the product of all rounds of a period that begins at `first_round`: what a
// period leaves at most of the distance between the replicas. To 1e-14; O(n^3).
double mixing_rate(const MixingGraph& graph, int ranks, int first_round = 0);

// Whether every rank's vector reaches every other, over the rounds of a period repeated.
// REQUIRES: each rank keeps part of its own vector in every round.
bool is_connected(const MixingGraph& graph, int ranks);

}  // namespace paceline::collective
