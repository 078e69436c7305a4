#include "paceline/torch/strategy/local/strategy_catalogue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "paceline/core/settings/named_choice.h"

namespace paceline::strategy {
namespace {

std::vector<Strategy> all_by_name() {
  std::vector<Strategy> all = built_in_strategies();
  std::ranges::move(server_strategies(), std::back_inserter(all));
  std::ranges::sort(all, {}, &Strategy::name);
  return all;
}

}  // namespace

const std::vector<Strategy>& strategies() {
  static const std::vector<Strategy> all = all_by_name();
  return all;
}

std::string StrategyChoice::text() const {
  const std::string values = text_of(strategy.settings, settings);
  return std::string(strategy.name) + (values.empty() ? "" : ":" + values);
}

bool StrategyChoice::on_servers() const {
  return strategy.on_servers ||
         (strategy.needs_servers != nullptr && strategy.needs_servers(settings));
}

Result<StrategyChoice> parse_strategy(std::string_view text) {
  auto choice = parse_named("synchrony", text, strategies());
  if (!choice) return choice.error();
  return StrategyChoice{std::move(choice->entry), std::move(choice->settings)};
}

}  // namespace paceline::strategy
