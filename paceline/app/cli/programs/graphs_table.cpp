#include "paceline/app/cli/programs/graphs_table.h"

#include <fmt/format.h>

#include "paceline/app/cli/programs/selection.h"
#include "paceline/app/cli/shared/text.h"

namespace paceline::cli {
namespace {

using collective::MixingGraph;
using collective::MixingProof;
using collective::MixingRow;

constexpr int kMostWeightLines = 100;

std::string counted(double count, std::string_view what) {
  return fmt::format("{:g} {}{}", count, what, count == 1 ? "" : "s");
}

// This rank's own vector first, and the peers in the order in which they are added.
std::string weights_of(const MixingRow& row, int rank) {
  std::string text = fmt::format("x{} = {:.4g} x{}", rank, row.own, rank);
  for (const auto& [peer, weight] : row.from) text += fmt::format(" + {:.4g} x{}", weight, peer);
  return text;
}

}  // namespace

std::vector<GraphRow> graph_rows(const std::vector<collective::MixingGraph>& graphs, int ranks) {
  std::vector<GraphRow> rows;
  for (const collective::MixingGraph& graph : graphs) {
    GraphRow& row = rows.emplace_back(GraphRow{graph, std::nullopt});
    if (graph.check(ranks)) row.proof = verify(graph, ranks).value();
  }
  return rows;
}

std::string graphs_table(const std::vector<GraphRow>& rows, int ranks) {
  std::vector<std::vector<std::string>> lines = {
      {"OPERATION", "GRAPH", "WEIGHTS", "PERIOD", "MESSAGES", "SENT", "RATE", "FOR"}};
  for (const GraphRow& row : rows) {
    std::vector<std::string> figures(4, "-");
    if (row.proof)
      figures = {fmt::format("{}", row.proof->period), fmt::format("{:g}", row.messages()),
                 fmt::format("{:.2f}", row.sent()), fmt::format("{:.5f}", row.proof->rate)};
    lines.push_back({std::string(kNeighbours), row.graph.name,
                     row.graph.is_symmetric ? "symmetric" : "directed", figures[0], figures[1],
                     figures[2], figures[3], row.graph.summary});
  }
  return in_columns(lines, {3, 4, 5, 6}) +
         fmt::format(
             "MESSAGES and SENT of a step, for {} ranks. SENT: by the rank that sends most, in "
             "lengths of the vector.\n"
             "RATE: the part of the replicas' distance that PERIOD steps leave at most.\n",
             ranks);
}

std::string graph_cost(const MixingProof& proof) {
  return fmt::format("{} and {} from the busiest rank a step",
                     counted(static_cast<double>(proof.messages) / proof.period, "message"),
                     counted(static_cast<double>(proof.sent) / proof.period, "vector"));
}

std::string graph_header(const MixingGraph& graph, int ranks, const MixingProof& proof) {
  return fmt::format(
      "{} {}, {} rank{}: {}\n"
      "{} weights, whose rows and columns sum to 1; {} at most {:.5f} of the replicas' distance\n",
      kNeighbours, graph.name, ranks, ranks == 1 ? "" : "s", graph_cost(proof),
      graph.is_symmetric ? "symmetric" : "directed",
      proof.period == 1
          ? std::string("a step leaves")
          : fmt::format("after {} steps it begins anew, and they leave", proof.period),
      proof.rate);
}

std::string graph_weights(const MixingGraph& graph, int ranks, int rank) {
  const int period = graph.rounds(ranks), shown = rank < 0 ? ranks : 1;
  if (shown * period > kMostWeightLines)
    return fmt::format("{} lines of weights: --rank R shows those of one rank\n", shown * period);
  std::string text;
  for (int at = rank < 0 ? 0 : rank; at < ranks && (rank < 0 || at == rank); ++at) {
    for (int round = 0; round < period; ++round) {
      const std::string when = period == 1 ? "" : fmt::format(", round {}", round);
      text += fmt::format("rank {}{}: {}\n", at, when, weights_of(graph.row(ranks, round, at), at));
    }
  }
  return text;
}

}  // namespace paceline::cli
