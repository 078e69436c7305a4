#include "paceline/app/cli/programs/graphs_table.h"

#include <fmt/format.h>

#include "paceline/app/cli/programs/selection.h"
#include "paceline/app/cli/shared/text.h"

namespace paceline::cli {

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

}  // namespace paceline::cli
