#include "paceline/core/collective/mixing/mixing_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/suggestion.h"
#include "paceline/core/collective/mixing/edge_list.h"
#include "paceline/core/collective/mixing/spectral_norm.h"

namespace paceline::collective {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

using Matrix = std::vector<double>;

Matrix product(const Matrix& a, const Matrix& b, int n) {
  Matrix c(a.size());
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < n; ++k) {
      const double factor = a[at(i * n + k)];
      if (factor == 0) continue;
      for (int j = 0; j < n; ++j) c[at(i * n + j)] += factor * b[at(k * n + j)];
    }
  return c;
}

// The ranks that rank 0's vector reaches along the edges; `peers` by rank.
std::size_t count_reached(const std::vector<std::vector<int>>& peers) {
  std::vector<bool> is_reached(peers.size());
  is_reached[0] = true;
  std::vector<int> front = {0};
  std::size_t reached = 1;
  while (!front.empty()) {
    const int rank = front.back();
    front.pop_back();
    for (const int peer : peers[at(rank)]) {
      if (is_reached[at(peer)]) continue;
      is_reached[at(peer)] = true;
      ++reached;
      front.push_back(peer);
    }
  }
  return reached;
}

}  // namespace

std::vector<MixingRow> MixingGraph::rows(int ranks, int round) const {
  std::vector<MixingRow> rows(at(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    MixingRow& row = rows[at(rank)];
    row.from = terms(ranks, round, rank);
    std::ranges::sort(row.from, {}, &MixingTerm::peer);
    for (const MixingTerm& term : row.from) {
      row.own -= term.weight;
      rows[at(term.peer)].to.push_back(rank);
    }
  }
  return rows;
}

MixingRow MixingGraph::row(int ranks, int round, int rank) const {
  return rows(ranks, round)[at(rank)];
}

const std::vector<MixingGraph>& mixing_graphs() {
  static const std::vector<MixingGraph> all = built_in_mixing_graphs();
  return all;
}

Result<MixingGraph> parse_mixing_graph(std::string_view text) {
  if (text.starts_with('@')) return read_edge_list(std::string(text.substr(1)));
  const auto& all = mixing_graphs();
  const auto found = std::ranges::find(all, text, &MixingGraph::name);
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const MixingGraph& graph : all) names.push_back(graph.name);
  return Failure{Fault::misuse,
                 fmt::format("there is no mixing graph '{}'; there are {}, and @FILE of edges{}",
                             text, fmt::join(names, ", "), suggestion(text, names)),
                 {}};
}

std::vector<double> mixing_matrix(const MixingGraph& graph, int ranks, int round) {
  Matrix matrix(at(ranks) * at(ranks));
  const std::vector<MixingRow> rows = graph.rows(ranks, round);
  for (int r = 0; r < ranks; ++r) {
    const MixingRow& row = rows[at(r)];
    matrix[at(r * ranks + r)] = row.own;
    for (const MixingTerm& term : row.from) matrix[at(r * ranks + term.peer)] = term.weight;
  }
  return matrix;
}

double mixing_rate(const MixingGraph& graph, int ranks, int first_round) {
  Matrix all = mixing_matrix(graph, ranks, first_round);
  for (int round = 1; round < graph.rounds(ranks); ++round)
    all = product(mixing_matrix(graph, ranks, first_round + round), all, ranks);
  for (double& entry : all) entry -= 1.0 / ranks;
  return spectral_norm(std::move(all), ranks);
}

// A rank that keeps part of its own vector hands on what it ever heard, so the edges of all rounds
// may be taken together; and all ranks reach each other if rank 0 reaches all, and all reach it.
bool is_connected(const MixingGraph& graph, int ranks) {
  std::vector<std::vector<int>> ahead(at(ranks)), behind(at(ranks));
  for (int round = 0; round < graph.rounds(ranks); ++round) {
    const std::vector<MixingRow> rows = graph.rows(ranks, round);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const MixingTerm& term : rows[at(rank)].from) behind[at(rank)].push_back(term.peer);
      for (const int peer : rows[at(rank)].to) ahead[at(rank)].push_back(peer);
    }
  }
  return count_reached(ahead) == ahead.size() && count_reached(behind) == behind.size();
}

}  // namespace paceline::collective
