// The fastest plan that a search in the simulator finds: it fuses, splits, orders and encodes.
// docs/schedules/general.md
#include "paceline/core/schedule/policy/general.h"

#include "paceline/core/schedule/policy/policy_catalogue.h"

namespace paceline::schedule::catalogue {
namespace {

Plan make(const Model& model, const Costs& costs, bool crosses_barrier) {
  return schedule::general(model, costs, {.crosses_barrier = crosses_barrier}).plan;
}

}  // namespace

Policy general() {
  return {.name = "general",
          .summary = "the fastest plan that a search in the simulator finds",
          .is_measured = true,
          .chooses_codecs = true,
          .make = make};
}

}  // namespace paceline::schedule::catalogue
