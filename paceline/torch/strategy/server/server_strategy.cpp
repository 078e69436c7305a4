#include "paceline/torch/strategy/server/server_strategy.h"

#include <memory>

#include "paceline/core/server/server.h"
#include "paceline/torch/strategy/server/server_synchrony.h"

namespace paceline::strategy {

Strategy server_strategy(std::string_view name, std::string_view reference) {
  const server::Consistency consistency = server::parse_consistency(name).value().entry;
  return {
      .name = consistency.name,
      .summary = consistency.summary,
      .reference = reference,
      .settings = consistency.settings,
      .make = [](const Settings&, const StrategyContext& context) -> parallel::MadeSynchrony {
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

}  // namespace paceline::strategy
