// A rate for each element, divided by the root of a running mean of squared gradients, as
// torch::optim::RMSprop. Tieleman, Hinton, Lecture 6.5 of "Neural Networks for Machine Learning",
// 2012.
#include <algorithm>
#include <cmath>

#include "paceline/core/server/rules/rule.h"

namespace paceline::server::catalogue {
namespace {

enum RmspropSetting {
  kRmspropRate,
  kRmspropAlpha,
  kRmspropEpsilon,
  kRmspropMomentum,
  kRmspropCentered,
  kRmspropWeightDecay
};

// The centred mean of squares is clamped at 0, below which it may round under a constant gradient
// (torch's ends with NaN then).
void step_rmsprop(const RuleStep& step) {
  for_each_element(step, [&](auto& value, auto gradient, auto slot) {
    using T = decltype(gradient);
    const auto setting = [&](RmspropSetting one) { return static_cast<T>(step.settings[one]); };
    const T change = decayed(gradient, setting(kRmspropWeightDecay), value);
    T& squares = slot(0);
    squares = setting(kRmspropAlpha) * squares + (1 - setting(kRmspropAlpha)) * change * change;
    T spread = squares;
    if (step.settings[kRmspropCentered] != 0) {
      T& mean = slot(1);
      mean = setting(kRmspropAlpha) * mean + (1 - setting(kRmspropAlpha)) * change;
      spread = std::max(T(0), squares - mean * mean);
    }
    T direction = change / (std::sqrt(spread) + setting(kRmspropEpsilon));
    if (step.settings[kRmspropMomentum] != 0) {
      T& velocity = slot(2);
      velocity = setting(kRmspropMomentum) * velocity + direction;
      direction = velocity;
    }
    value -= setting(kRmspropRate) * direction;
  });
}

}  // namespace

Rule rmsprop() {
  return {.name = "rmsprop",
          .summary = "a rate for each element, by a running mean of its squared gradients",
          .settings = {rate_setting(0.01),
                       {.name = "alpha",
                        .standard = 0.99,
                        .meaning = "the share of the mean of squares that a step keeps"},
                       epsilon_setting(1e-8),
                       {.name = "momentum", .standard = 0, .meaning = "the momentum factor"},
                       {.name = "centered",
                        .standard = 0,
                        .meaning = "divides by the spread of the gradients about their mean",
                        .whole = true,
                        .words = {"off", "on"}},
                       weight_decay_setting(0)},
          .slots = 3,
          .step = step_rmsprop};
}

}  // namespace paceline::server::catalogue
