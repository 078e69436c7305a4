// Neighbours share a message if its start-up costs more than waiting.
// Reference: Shi, Chu and Li, MG-WFBP, INFOCOM 2019. docs/schedules/merged.md
#include "paceline/core/schedule/policy/policies.h"
#include "paceline/core/schedule/policy/policy_catalogue.h"

namespace paceline::schedule::catalogue {
namespace {

Plan make(const Model& model, const Costs& costs, bool) {
  return schedule::merged(model, costs.links);
}

}  // namespace

Policy merged() {
  return {.name = "merged",
          .summary = "neighbours share a message where that is faster",
          .is_measured = true,
          .make = make};
}

}  // namespace paceline::schedule::catalogue
