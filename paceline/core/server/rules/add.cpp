// The value is the sum of all pushes, as they are: for workers that step their own copies and push
// the differences.
#include "paceline/core/server/rules/rule.h"

namespace paceline::server::catalogue {

Rule add() {
  return {.name = "add",
          .summary = "adds pushed differences to the value, as they are",
          .sums = true,
          .step = [](const RuleStep& step) {
            for_each_element(step, [](auto& value, auto gradient, auto) { value += gradient; });
          }};
}

}  // namespace paceline::server::catalogue
