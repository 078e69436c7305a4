// One message carries all gradients when the backward pass is over (BSP).
// docs/schedules/barrier.md
#include "paceline/core/schedule/policy/policies.h"
#include "paceline/core/schedule/policy/policy_catalogue.h"

namespace paceline::schedule::catalogue {
namespace {

Plan make(const Model& model, const Costs&, bool) {
  return schedule::barrier(model);
}

}  // namespace

Policy barrier() {
  return {.name = "barrier",
          .summary = "all gradients in one message after the backward pass",
          .make = make};
}

}  // namespace paceline::schedule::catalogue
