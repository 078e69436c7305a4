#include "paceline/core/collective/mixing/mixing_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/base/suggestion.h"
#include "paceline/core/collective/mixing/edge_list.h"

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

// The largest singular value, by the eigenvalues of M^T M (Jacobi's rotations).
double spectral_norm(const Matrix& m, int n) {
  Matrix transposed(m.size());
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) transposed[at(j * n + i)] = m[at(i * n + j)];
  Matrix a = product(transposed, m, n);
  for (int sweep = 0; sweep < 100; ++sweep) {
    double off = 0;
    for (int p = 0; p < n; ++p)
      for (int q = p + 1; q < n; ++q) off += a[at(p * n + q)] * a[at(p * n + q)];
    if (off < 1e-30) break;
    for (int p = 0; p < n; ++p) {
      for (int q = p + 1; q < n; ++q) {
        const double apq = a[at(p * n + q)];
        if (std::abs(apq) < 1e-300) continue;
        const double theta = (a[at(q * n + q)] - a[at(p * n + p)]) / (2 * apq);
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::hypot(1, theta));
        const double c = 1 / std::hypot(1, t), s = t * c;
        for (int k = 0; k < n; ++k) {
          const double akp = a[at(k * n + p)], akq = a[at(k * n + q)];
          a[at(k * n + p)] = c * akp - s * akq;
          a[at(k * n + q)] = s * akp + c * akq;
        }
        for (int k = 0; k < n; ++k) {
          const double apk = a[at(p * n + k)], aqk = a[at(q * n + k)];
          a[at(p * n + k)] = c * apk - s * aqk;
          a[at(q * n + k)] = s * apk + c * aqk;
        }
      }
    }
  }
  double largest = 0;
  for (int i = 0; i < n; ++i) largest = std::max(largest, a[at(i * n + i)]);
  return std::sqrt(largest);
}

}  // namespace

MixingRow MixingGraph::row(int ranks, int round, int rank) const {
  MixingRow row{.own = 1, .from = terms(ranks, round, rank), .to = {}};
  std::ranges::sort(row.from, {}, &MixingTerm::peer);
  for (const MixingTerm& term : row.from) row.own -= term.weight;
  for (int other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    const auto others = terms(ranks, round, other);
    if (std::ranges::find(others, rank, &MixingTerm::peer) != others.end()) row.to.push_back(other);
  }
  return row;
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
  for (int r = 0; r < ranks; ++r) {
    const MixingRow row = graph.row(ranks, round, r);
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
  return spectral_norm(all, ranks);
}

bool is_connected(const MixingGraph& graph, int ranks) {
  Matrix reach(at(ranks) * at(ranks));
  for (int r = 0; r < ranks; ++r) reach[at(r * ranks + r)] = 1;
  for (int step = 0; step < ranks * graph.rounds(ranks); ++step) {
    reach = product(mixing_matrix(graph, ranks, step), reach, ranks);
    for (double& entry : reach) entry = entry > 0 ? 1 : 0;
  }
  return std::ranges::all_of(reach, [](double entry) { return entry > 0; });
}

}  // namespace paceline::collective
