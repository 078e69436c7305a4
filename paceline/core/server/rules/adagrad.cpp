// A rate for each element, divided by the root of the sum of its squared gradients, as

#include <cmath>
// torch::optim::Adagrad. Duchi, Hazan, Singer, "Adaptive Subgradient Methods for Online Learning
// and Stochastic Optimization", JMLR 12, 2011.
#include "paceline/core/server/rules/rule.h"

namespace paceline::server::catalogue {
namespace {

enum AdagradSetting { kAdagradRate, kAdagradRateDecay, kAdagradWeightDecay, kAdagradEpsilon };

void step_adagrad(const RuleStep& step) {
  const double rate = step.settings[kAdagradRate] /
                      (1 + static_cast<double>(step.number - 1) * step.settings[kAdagradRateDecay]);
  for_each_element(step, [&](auto& value, auto gradient, auto slot) {
    using T = decltype(gradient);
    const auto setting = [&](AdagradSetting one) { return static_cast<T>(step.settings[one]); };
    const T change = decayed(gradient, setting(kAdagradWeightDecay), value);
    T& squares = slot(0);
    squares += change * change;
    value -= static_cast<T>(rate) * change / (std::sqrt(squares) + setting(kAdagradEpsilon));
  });
}

}  // namespace

Rule adagrad() {
  return {.name = "adagrad",
          .summary = "a rate for each element, which falls with its squared gradients",
          .settings = {rate_setting(0.01),
                       {.name = "rate_decay",
                        .standard = 0,
                        .most = 1e9,
                        .meaning = "step k divides the rate by 1 + (k - 1) times this"},
                       weight_decay_setting(0),
                       epsilon_setting(1e-10)},
          .slots = 1,
          .step = step_adagrad};
}

}  // namespace paceline::server::catalogue
