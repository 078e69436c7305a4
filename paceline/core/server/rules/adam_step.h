// The step that adam and adamw share; they differ in where the decay of the values enters.
#pragma once

#include "paceline/core/server/rules/rule.h"

namespace paceline::server {

enum class Decay : bool { in_gradient, apart };

// The settings of both rules, in the order in which adam_step() reads them.
std::vector<Setting> adam_settings(double weight_decay);
void adam_step(const RuleStep& step, Decay decay);

}  // namespace paceline::server
