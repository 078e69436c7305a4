// Tensors are cut into parts, and those that the next forward pass reads first overtake the rest.
// References: Jayarajan et al., P3, MLSys 2019; Peng et al., ByteScheduler, SOSP 2019.
// docs/schedules/priority.md
#include "paceline/core/schedule/policy/policies.h"
#include "paceline/core/schedule/policy/policy_catalogue.h"

namespace paceline::schedule::catalogue {
namespace {

Plan make(const Model& model, const Costs&, bool crosses_barrier) {
  return schedule::priority(model, {.crosses_barrier = crosses_barrier});
}

}  // namespace

Policy priority() {
  return {.name = "priority",
          .summary = "in parts; gradients that the next forward pass reads first overtake others",
          .is_measured = true,
          .make = make};
}

}  // namespace paceline::schedule::catalogue
