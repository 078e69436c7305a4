// Stochastic gradient descent, with momentum and Nesterov's form of it, as torch::optim::SGD.
// Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep
// learning", ICML 2013.
#include "paceline/core/server/rules/rule.h"

namespace paceline::server::catalogue {
namespace {

enum SgdSetting { kSgdRate, kSgdMomentum, kSgdDampening, kSgdNesterov, kSgdWeightDecay };

// The first step takes the gradient as the velocity, whatever the dampening.
void step_sgd(const RuleStep& step) {
  for_each_element(step, [&](auto& value, auto gradient, auto slot) {
    using T = decltype(gradient);
    const auto setting = [&](SgdSetting one) { return static_cast<T>(step.settings[one]); };
    T change = decayed(gradient, setting(kSgdWeightDecay), value);
    if (step.settings[kSgdMomentum] != 0) {
      T& velocity = slot(0);
      velocity = step.number == 1
                     ? change
                     : setting(kSgdMomentum) * velocity + (1 - setting(kSgdDampening)) * change;
      change =
          step.settings[kSgdNesterov] != 0 ? change + setting(kSgdMomentum) * velocity : velocity;
    }
    value -= setting(kSgdRate) * change;
  });
}

}  // namespace

Rule sgd() {
  return {.name = "sgd",
          .summary = "stochastic gradient descent, with momentum where it is not 0",
          .settings = {rate_setting(0.1),
                       {.name = "momentum", .standard = 0, .meaning = "the momentum factor"},
                       {.name = "dampening",
                        .standard = 0,
                        .meaning = "the share of the gradient that the velocity does not take"},
                       {.name = "nesterov",
                        .standard = 0,
                        .meaning = "looks ahead by the velocity; needs momentum, no dampening",
                        .whole = true,
                        .words = {"off", "on"}},
                       weight_decay_setting(0)},
          .slots = 1,
          .step = step_sgd};
}

}  // namespace paceline::server::catalogue
