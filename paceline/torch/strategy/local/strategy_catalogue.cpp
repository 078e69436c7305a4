#include "paceline/torch/strategy/local/strategy_catalogue.h"

#include <utility>

#include "paceline/core/settings/named_choice.h"

namespace paceline::strategy {

const std::vector<Strategy>& strategies() {
  static const std::vector<Strategy> all = built_in_strategies();
  return all;
}

std::string Choice::text() const {
  const std::string values = text_of(strategy.settings, settings);
  return std::string(strategy.name) + (values.empty() ? "" : ":" + values);
}

Result<Choice> parse_strategy(std::string_view text) {
  auto choice = parse_named("synchrony", text, strategies());
  if (!choice) return choice.error();
  return Choice{std::move(choice->entry), std::move(choice->settings)};
}

}  // namespace paceline::strategy
