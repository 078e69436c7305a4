// Each model of consistency of tables on servers (core/server/consistency) to which gradients or
// changes are pushed is a strategy too: its name, summary, reference and settings are the model's.
// So are those of downpour, whose pushes are accrued.
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
            server::parse_consistency(context.options.synchrony).value(), context, false)};
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

Strategy downpour() {
  Strategy strategy = on_servers(server::parse_consistency("downpour").value().entry);
  strategy.make = [](const Settings&, const StrategyContext& context) -> replica::MadeSynchrony {
    return {std::make_unique<ServerSynchrony>(
        server::parse_consistency(context.options.synchrony).value(), context, true)};
  };
  strategy.traffic = [](const Settings& settings,
                        const TrafficModel& model) -> std::vector<Traffic> {
    Traffic push{.operation = Operation::send, .elements = model.elements, .peers = 1};
    Traffic fetch = push;
    push.every = settings["push"];
    fetch.every = settings["fetch"];
    if (!settings.on("fetching")) fetch.overlap = Traffic::Overlap::backward;
    return {push, fetch};
  };
  return strategy;
}

}  // namespace

std::vector<Strategy> server_strategies() {
  std::vector<Strategy> all;
  for (const server::Consistency& one : server::built_in_consistencies())
    if (one.is_strategy) all.push_back(on_servers(one));
  all.push_back(downpour());
  return all;
}

}  // namespace paceline::strategy
