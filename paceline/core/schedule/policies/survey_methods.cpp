#include "paceline/core/schedule/policies/survey_methods.h"

#include <utility>

#include "paceline/core/schedule/policies/policies.h"

namespace paceline::schedule {
namespace {

MessagePlan named(std::string name, MessagePlan plan) {
  plan.name = std::move(name);
  return plan;
}

}  // namespace

std::vector<MessagePlan> survey_methods(const Model& model, const LinkCosts& links,
                                        bool crosses_barrier) {
  const PolicySettings servers{.path = Path::server, .part_bytes = kServerPart};
  std::vector<MessagePlan> all;
  if (links.server) all.push_back(named("BSP-PS", barrier(model, servers)));
  all.push_back(named("BSP-A2A", barrier(model)));
  if (links.server) all.push_back(named("WFBP-PS", wait_free(model, servers)));
  all.push_back(named("WFBP-A2A", wait_free(model)));
  all.push_back(named("MG-WFBP", merged(model, links, {.rule = FusionRule::released})));
  if (links.server) {
    all.push_back(named("ByteScheduler-PS", priority(model, {.path = Path::server,
                                                             .part_bytes = kServerPart,
                                                             .window_bytes = 4 * kServerPart,
                                                             .crosses_barrier = crosses_barrier})));
  }
  // ByteScheduler's partition and credit count elements: 4,000,000 and 16,000,000.
  constexpr std::size_t kElement = 4;
  all.push_back(named("ByteScheduler-A2A", priority(model, {.part_bytes = 4000000 * kElement,
                                                            .window_bytes = 16000000 * kElement,
                                                            .crosses_barrier = crosses_barrier})));
  return all;
}

}  // namespace paceline::schedule
