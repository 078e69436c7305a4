// Each model of consistency of tables on servers (core/server/consistency) to which gradients or
// changes are pushed is a strategy too: its name, summary, reference and settings are the model's.
#include <memory>

#include "paceline/core/server/server.h"
#include "paceline/torch/strategy/local/strategy_catalogue.h"
#include "paceline/torch/strategy/server/server_synchrony.h"

namespace paceline::strategy {
namespace {

Strategy on_servers(const server::Consistency& consistency) {
  return {
      .name = consistency.name,
      .summary = consistency.summary,
      .reference = consistency.reference,
      .settings = consistency.settings,
      .make = [](const Settings&, const StrategyContext& context) -> replica::MadeSynchrony {
        return {std::make_unique<ServerSynchrony>(
            server::parse_consistency(context.options.synchrony).value(), context)};
      },
      // A push, and then a pull.
      .traffic = [](const Settings&, const TrafficModel& model) -> std::vector<Traffic> {
        const Traffic one{.operation = Operation::send, .elements = model.elements, .peers = 1};
        return {one, one};
      },
      .on_servers = true,
      .closes_without_some =
          server::pacing_of({consistency, standard_settings(consistency.settings)}).skips_steps()};
}

}  // namespace

std::vector<Strategy> server_strategies() {
  std::vector<Strategy> all;
  for (const server::Consistency& one : server::built_in_consistencies())
    if (one.is_strategy) all.push_back(on_servers(one));
  return all;
}

}  // namespace paceline::strategy
