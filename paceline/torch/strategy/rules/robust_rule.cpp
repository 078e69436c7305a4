#include "paceline/torch/strategy/rules/robust_rule.h"

#include <c10/util/StringUtil.h>

#include <string>

namespace paceline::strategy::rules {

const std::vector<RobustRule>& robust_rules() {
  static const std::vector<RobustRule> all = {
      {.name = "krum", .spare = 3, .apply = krum},
      {.name = "multi_krum", .spare = 3, .apply = multi_krum},
      {.name = "median", .apply = median},
      {.name = "trimmed_mean", .apply = trimmed_mean},
      {.name = "geometric_median", .apply = geometric_median},
      {.name = "clipping", .apply = clipping, .keeps_state = true},
  };
  return all;
}

Result<> check(const RobustRule& rule, int ranks, int faulty) {
  if (ranks >= rule.least_ranks(faulty)) return Done{};
  std::vector<std::string_view> bearing;
  for (const RobustRule& other : robust_rules())
    if (ranks >= other.least_ranks(faulty)) bearing.push_back(other.name);
  const int most = (ranks - rule.spare) / 2;
  std::string remedy = c10::str("take ", rule.least_ranks(faulty), " ranks or more");
  if (ranks >= rule.spare) remedy += c10::str(", or faulty=", most);
  if (!bearing.empty()) remedy += c10::str(", or rule=", c10::Join(" or ", bearing));
  return Failure{Fault::misuse,
                 c10::str("rule ", rule.name, " with faulty=", faulty, " needs 2 * ", faulty, " + ",
                          rule.spare, " = ", rule.least_ranks(faulty), " ranks, and there are ",
                          ranks, ": ", remedy),
                 {}};
}

}  // namespace paceline::strategy::rules
