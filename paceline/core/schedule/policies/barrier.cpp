// One message carries all gradients when the backward pass is over (BSP).
// docs/schedules/barrier.md
#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/policies/policy_catalogue.h"

namespace paceline::schedule {

MessagePlan barrier(const Model& model, const PolicySettings& settings) {
  return plan_of("barrier", one_group(model.size()),
                 {.path = settings.path, .part_bytes = settings.part_bytes});
}

namespace catalogue {

Policy barrier() {
  return {.name = "barrier",
          .summary = "all gradients in one message after the backward pass",
          .make = [](const Model& model, const Costs&, bool) { return schedule::barrier(model); }};
}

}  // namespace catalogue
}  // namespace paceline::schedule
