#include "paceline/torch/strategy/local/graph_setting.h"

namespace paceline::strategy {

Setting graph_setting(std::string_view standard) {
  return {.name = "graph",
          .meaning =
              "with whom a rank mixes: complete, ring, torus, exponential, one_peer, or "
              "@FILE of edges",
          .standard_text = standard};
}

collective::MixingGraph graph_of(const Settings& settings) {
  return collective::parse_mixing_graph(settings.text("graph")).value();
}

Result<> check_graph(const Settings& settings, int ranks) {
  const auto graph = collective::parse_mixing_graph(settings.text("graph"));
  if (!graph) return graph.error();
  return graph.value().check(ranks);
}

std::vector<Traffic> neighbour_traffic(const collective::MixingGraph& graph,
                                       const TrafficModel& model, Traffic::Overlap overlap) {
  const int rounds = graph.rounds(model.ranks);
  double peers = 0;
  for (int round = 0; round < rounds; ++round)
    peers += static_cast<double>(graph.row(model.ranks, round, 0).to.size()) / rounds;
  return {{.operation = Operation::send,
           .elements = peers * model.elements,
           .peers = static_cast<int>(peers + 0.5),
           .overlap = overlap}};
}

}  // namespace paceline::strategy
