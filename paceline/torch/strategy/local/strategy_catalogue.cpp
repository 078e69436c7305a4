#include "paceline/torch/strategy/local/strategy_catalogue.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

#include "paceline/core/base/suggestion.h"

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
  const auto [name, texts, has_settings] = split_name(text);
  const auto& all = strategies();
  const auto found = std::ranges::find(all, name, &Strategy::name);
  if (found == all.end()) {
    std::vector<std::string> names;
    for (const Strategy& one : all) names.emplace_back(one.name);
    return Failure{Fault::misuse,
                   c10::str("there is no synchrony '", name, "'; there are ",
                            c10::Join(", ", names), suggestion(name, names)),
                   {}};
  }
  Choice choice{*found, standard_settings(found->settings)};
  if (!has_settings) return choice;
  auto settings = parse_settings(name, found->settings, texts);
  if (!settings) return settings.error();
  choice.settings = *std::move(settings);
  return choice;
}

}  // namespace paceline::strategy
