#include "paceline/core/schedule/policy_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/base/check.h"
#include "paceline/core/base/suggestion.h"
#include "paceline/core/schedule/general.h"
#include "paceline/core/schedule/policies.h"

namespace paceline::schedule {
namespace {

Plan of_barrier(const Model& model, const Costs&, bool) {
  return barrier(model);
}
Plan of_wait_free(const Model& model, const Costs&, bool) {
  return wait_free(model);
}
Plan of_merged(const Model& model, const Costs& costs, bool) {
  return merged(model, costs.links);
}
Plan of_priority(const Model& model, const Costs&, bool crosses_barrier) {
  return priority(model, {.crosses_barrier = crosses_barrier});
}
Plan of_general(const Model& model, const Costs& costs, bool crosses_barrier) {
  return general(model, costs, {.crosses_barrier = crosses_barrier}).plan;
}

constexpr std::array<Policy, 5> kPolicies = {{
    {"barrier", "all gradients in one message after the backward pass", false, false, of_barrier},
    {"wait_free", "each gradient as soon as it is ready", false, false, of_wait_free},
    {"merged", "neighbours share a message where that is faster", true, false, of_merged},
    {"priority", "in parts; what the next forward pass reads first overtakes", true, false,
     of_priority},
    {"general", "the fastest plan that a search in the simulator finds", true, true, of_general},
}};

}  // namespace

std::span<const Policy> policies() {
  return kPolicies;
}

const Policy& policy(std::string_view name) {
  const auto found = std::ranges::find(kPolicies, name, &Policy::name);
  if (found != kPolicies.end()) return *found;
  std::vector<std::string> names;
  for (const Policy& known : kPolicies) names.emplace_back(known.name);
  throw_misuse(fmt::format("there is no schedule '{}'; there are {}{}", name,
                           fmt::join(names, ", "), suggestion(name, names)));
}

}  // namespace paceline::schedule
