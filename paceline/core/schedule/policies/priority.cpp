// Tensors are cut into parts, and those that the next forward pass reads first overtake the rest.
// References: Jayarajan et al., P3, MLSys 2019; Peng et al., ByteScheduler, SOSP 2019.
// docs/schedules/priority.md
#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/policies/policy_catalogue.h"

namespace paceline::schedule {

MessagePlan priority(const Model& model, const PrioritySettings& settings) {
  return plan_of("priority", single_tensors(model.size()),
                 {.path = settings.path,
                  .part_bytes = settings.part_bytes,
                  .by_forward_order = true,
                  .crosses_barrier = settings.crosses_barrier,
                  .window_bytes = settings.window_bytes});
}

namespace catalogue {

Policy priority() {
  return {.name = "priority",
          .summary = "in parts; gradients that the next forward pass reads first overtake others",
          .is_measured = true,
          .make = [](const Model& model, const Costs&, bool crosses_barrier) {
            return schedule::priority(model, {.crosses_barrier = crosses_barrier});
          }};
}

}  // namespace catalogue
}  // namespace paceline::schedule
