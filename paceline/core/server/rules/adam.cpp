// Steps along the mean gradient, divided by the root of the mean of its squares, as
// torch::optim::Adam. Kingma, Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.
#include "paceline/core/server/rules/adam_step.h"

namespace paceline::server::catalogue {

Rule adam() {
  return {.name = "adam",
          .summary = "running means of gradients and of their squares set each element's step",
          .settings = adam_settings(0),
          .slots = 2,
          .step = [](const RuleStep& step) { adam_step(step, Decay::in_gradient); }};
}

}  // namespace paceline::server::catalogue
