#include "paceline/core/server/rules/adam_step.h"

#include <cmath>

namespace paceline::server {
namespace {

enum AdamSetting { kAdamRate, kAdamBeta1, kAdamBeta2, kAdamEpsilon, kAdamWeightDecay };

}  // namespace

std::vector<Setting> adam_settings(double weight_decay) {
  return {rate_setting(1e-3),
          {.name = "beta1", .standard = 0.9, .meaning = "the share of the mean that a step keeps"},
          {.name = "beta2",
           .standard = 0.999,
           .meaning = "the share of the mean of squares that a step keeps"},
          epsilon_setting(1e-8),
          weight_decay_setting(weight_decay)};
}

// The corrections of the two means, which begin with zeros, are computed in double precision.
void adam_step(const RuleStep& step, Decay decay) {
  const auto number = static_cast<double>(step.number);
  const double mean_correction = 1 - std::pow(step.settings[kAdamBeta1], number);
  const double root_correction = std::sqrt(1 - std::pow(step.settings[kAdamBeta2], number));
  const double rate = step.settings[kAdamRate] / mean_correction;
  for_each_element(step, [&](auto& value, auto gradient, auto slot) {
    using T = decltype(gradient);
    const auto setting = [&](AdamSetting one) { return static_cast<T>(step.settings[one]); };
    T change = gradient;
    if (decay == Decay::apart) {
      value *= static_cast<T>(1 - step.settings[kAdamRate] * step.settings[kAdamWeightDecay]);
    } else {
      change = decayed(gradient, setting(kAdamWeightDecay), value);
    }
    T& mean = slot(0);
    T& squares = slot(1);
    mean = setting(kAdamBeta1) * mean + (1 - setting(kAdamBeta1)) * change;
    squares = setting(kAdamBeta2) * squares + (1 - setting(kAdamBeta2)) * change * change;
    const T root = std::sqrt(squares) / static_cast<T>(root_correction) + setting(kAdamEpsilon);
    value -= static_cast<T>(rate) * mean / root;
  });
}

}  // namespace paceline::server
