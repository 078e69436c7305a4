// The rule by which servers step as an optimizer of torch does.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "paceline/torch/replica/replica.h"

namespace paceline::strategy {

struct OptimizerRule {
  std::string name;                        // in core/server/rules
  std::map<std::string, double> settings;  // all of the rule's, as the optimizer has them now
  bool operator==(const OptimizerRule&) const = default;
};

// The one rule of optimizers that together step all these parameters by the same settings.
// `synchrony`: for messages. THROWS Error (misuse), which says what to take instead: servers have
// no rule for an optimizer or one of its options, the settings of two parameters differ, or a
// parameter is in no group.
OptimizerRule rule_of(const replica::Optimizers& optimizers,
                      const std::vector<replica::Parameter>& parameters,
                      const std::string& synchrony);

}  // namespace paceline::strategy
