// Each gradient travels in a message of its own as soon as it is ready, in that order.
// Reference: Zhang et al., Poseidon, ATC 2017. docs/schedules/wait_free.md
#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/policies/policy_catalogue.h"

namespace paceline::schedule {

MessagePlan wait_free(const Model& model, const PolicySettings& settings) {
  return plan_of("wait_free", single_tensors(model.size()),
                 {.path = settings.path, .part_bytes = settings.part_bytes});
}

namespace catalogue {

Policy wait_free() {
  return {
      .name = "wait_free",
      .summary = "each gradient as soon as it is ready",
      .make = [](const Model& model, const Costs&, bool) { return schedule::wait_free(model); }};
}

}  // namespace catalogue
}  // namespace paceline::schedule
