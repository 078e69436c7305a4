// Each gradient travels in a message of its own as soon as it is ready, in that order.
// Reference: Zhang et al., Poseidon, ATC 2017. docs/schedules/wait_free.md
#include "paceline/core/schedule/policy/policies.h"
#include "paceline/core/schedule/policy/policy_catalogue.h"

namespace paceline::schedule::catalogue {
namespace {

Plan make(const Model& model, const Costs&, bool) {
  return schedule::wait_free(model);
}

}  // namespace

Policy wait_free() {
  return {.name = "wait_free", .summary = "each gradient as soon as it is ready", .make = make};
}

}  // namespace paceline::schedule::catalogue
