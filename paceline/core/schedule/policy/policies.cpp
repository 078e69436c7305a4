#include "paceline/core/schedule/policy/policies.h"

#include <utility>

#include "paceline/core/base/check.h"
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

Plan named(std::string name, Plan plan) {
  plan.name = std::move(name);
  return plan;
}

}  // namespace

Plan barrier(const Model& model, const PolicySettings& settings) {
  return plan_of("barrier", one_group(model.size()),
                 {.path = settings.path, .part_bytes = settings.part_bytes});
}

Plan wait_free(const Model& model, const PolicySettings& settings) {
  return plan_of("wait_free", single_tensors(model.size()),
                 {.path = settings.path, .part_bytes = settings.part_bytes});
}

Plan buckets(const Model& model, const BucketCaps& caps) {
  std::vector<Gradient> gradients;
  std::vector<int> order;
  for (int place = 0; place < model.size(); ++place) {
    gradients.push_back({.bytes = model.sent(place).bytes});
    order.push_back(place);
  }
  return plan_of("buckets", cuts_of(plan_buckets(gradients, order, caps)), {});
}

Plan merged(const Model& model, const LinkCosts& links, const MergedSettings& settings) {
  const topology::Line transfer = transfer_line(links, settings.path);
  const auto ready = ready_times(model), bytes = sent_bytes(model);
  const Fusion fusion =
      settings.rule == FusionRule::exact
          ? exact_fusion(ready, bytes, transfer)
          : released_fusion(ready, bytes, transfer, static_cast<double>(settings.floor_bytes));
  return plan_of("merged", fusion.cuts, {.path = settings.path});
}

Plan priority(const Model& model, const PrioritySettings& settings) {
  return plan_of("priority", single_tensors(model.size()),
                 {.path = settings.path,
                  .part_bytes = settings.part_bytes,
                  .by_forward_order = true,
                  .crosses_barrier = settings.crosses_barrier,
                  .window_bytes = settings.window_bytes});
}

std::vector<Plan> survey_methods(const Model& model, const LinkCosts& links, bool crosses_barrier) {
  const PolicySettings servers{.path = Path::server, .part_bytes = kServerPart};
  std::vector<Plan> all;
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
