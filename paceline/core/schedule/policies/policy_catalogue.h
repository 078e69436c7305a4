// The catalogue of policies, which `--schedule` and DataParallelOptions::schedule name: each makes
// a plan of a model.
//
// CMake lists policies/*.cpp and generates built_in_policies(); file <name>.cpp defines
// `Policy <name>()` in namespace paceline::schedule::catalogue. Nothing registers itself.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "paceline/core/schedule/order/costs.h"
#include "paceline/core/schedule/order/gradient_plan.h"
#include "paceline/core/schedule/order/model.h"

namespace paceline::schedule {

struct Policy {
  std::string_view name;
  std::string_view summary;  // one line
  // The plan depends on measured times and on the links' costs; otherwise only on the sizes and the
  // order of the tensors.
  bool is_measured = false;
  bool chooses_codecs = false;  // among those whose costs are given; otherwise nothing is encoded
  // `crosses_barrier`: the next forward pass may start before all parameters are back. To be
  // carried out, a plan with priorities needs an order (ordered(), simulate.h).
  MessagePlan (*make)(const Model& model, const Costs& costs, bool crosses_barrier) = nullptr;
};

std::vector<Policy> built_in_policies();  // sorted by name

// The built-in policies, those that need the least knowledge first.
std::span<const Policy> policies();

// THROWS Error (misuse): no policy has this name; the message lists those that exist.
const Policy& policy(std::string_view name);

}  // namespace paceline::schedule
