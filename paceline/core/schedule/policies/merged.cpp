// Neighbours share a message if its start-up costs more than waiting.
// Reference: Shi, Chu and Li, MG-WFBP, INFOCOM 2019. docs/schedules/merged.md
#include "paceline/core/base/check.h"
#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/policies/policy_catalogue.h"
#include "paceline/core/schedule/simulation/fusion.h"

namespace paceline::schedule {
namespace {

// The time that a message of n bytes holds the direction of the link that it holds longest.
topology::Line transfer_line(const LinkCosts& links, Path path) {
  if (path == Path::all_to_all) return links.all_reduce;
  PACELINE_CHECK(links.server.has_value(),
                 "the server's path was asked for, and there are no servers");
  const topology::Line& push = links.server->push;
  const topology::Line& pull = links.server->pull;
  if (links.server->is_duplex) return push;
  return {push.alpha + pull.alpha, push.beta + pull.beta};
}

}  // namespace

MessagePlan merged(const Model& model, const LinkCosts& links, const MergedSettings& settings) {
  const topology::Line transfer = transfer_line(links, settings.path);
  const auto ready = ready_times(model), bytes = sent_bytes(model);
  const Fusion fusion =
      settings.rule == FusionRule::exact
          ? exact_fusion(ready, bytes, transfer)
          : released_fusion(ready, bytes, transfer, static_cast<double>(settings.floor_bytes));
  return plan_of("merged", fusion.cuts, {.path = settings.path});
}

namespace catalogue {

Policy merged() {
  return {.name = "merged",
          .summary = "neighbours share a message where that is faster",
          .is_measured = true,
          .make = [](const Model& model, const Costs& costs, bool) {
            return schedule::merged(model, costs.links);
          }};
}

}  // namespace catalogue
}  // namespace paceline::schedule
