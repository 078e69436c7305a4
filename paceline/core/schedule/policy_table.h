// The policies by name, as `--schedule` and DataParallelOptions::schedule say them.
#pragma once

#include <span>
#include <string_view>

#include "paceline/core/schedule/costs.h"
#include "paceline/core/schedule/model.h"
#include "paceline/core/schedule/plan.h"

namespace paceline::schedule {

struct Policy {
  std::string_view name;
  std::string_view summary;  // one line
  // Its plan follows from measured times and costs of links; else from sizes and order alone.
  bool is_measured = false;
  bool chooses_codecs = false;  // of those that have costs; else none
  // `crosses_barrier`: the next forward pass may start before all parameters are back. To be
  // carried out, the plan wants an order (ordered(), simulate.h).
  Plan (*make)(const Model& model, const Costs& costs, bool crosses_barrier) = nullptr;
};

std::span<const Policy> policies();

// THROWS Error (misuse): there is none called so, with those that there are.
const Policy& policy(std::string_view name);

}  // namespace paceline::schedule
