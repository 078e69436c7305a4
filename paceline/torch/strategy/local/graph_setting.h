// The setting of strategies that name a mixing graph.
#pragma once

#include <vector>

#include "paceline/core/collective/mixing/mixing_graph.h"
#include "paceline/torch/strategy/local/strategy_catalogue.h"

namespace paceline::strategy {

Setting graph_setting(std::string_view standard);  // "graph"
// THROWS Error (misuse): there is no such graph, or its file is bad.
collective::MixingGraph graph_of(const Settings& settings);
Result<> check_graph(const Settings& settings, int ranks);
// A message to each neighbour in each step: the mean over a period and all ranks.
std::vector<Traffic> neighbour_traffic(const collective::MixingGraph& graph,
                                       const TrafficModel& model, Traffic::Overlap overlap);

}  // namespace paceline::strategy
