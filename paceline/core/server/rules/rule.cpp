#include "paceline/core/server/rules/rule.h"

namespace paceline::server {

Result<RuleChoice> parse_rule(std::string_view text) {
  return parse_named("rule", text, built_in_rules());
}

std::vector<double> values_of(const RuleChoice& choice) {
  std::vector<double> values;
  for (const Setting& setting : choice.entry.settings)
    values.push_back(choice.settings[setting.name]);
  return values;
}

Setting rate_setting(double standard) {
  return {.name = "rate",
          .standard = standard,
          .least = 0,
          .most = 1e9,
          .meaning = "the learning rate"};
}

Setting weight_decay_setting(double standard) {
  return {.name = "weight_decay",
          .standard = standard,
          .least = 0,
          .most = 1e9,
          .meaning = "the share of the values by which they decay"};
}

Setting epsilon_setting(double standard) {
  return {.name = "epsilon",
          .standard = standard,
          .least = 0,
          .most = 1e9,
          .meaning = "added to the divisor, so that it is never zero"};
}

}  // namespace paceline::server
