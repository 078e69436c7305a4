// Adam whose decay of the values stays apart from the gradients, as torch::optim::AdamW.
// Loshchilov, Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.
#include "paceline/core/server/rules/adam_step.h"

namespace paceline::server::catalogue {

Rule adamw() {
  return {.name = "adamw",
          .summary = "adam with a decay of the values that the gradients do not see",
          .settings = adam_settings(0.01),
          .slots = 2,
          .step = [](const RuleStep& step) { adam_step(step, Decay::apart); }};
}

}  // namespace paceline::server::catalogue
