// The general scheduler (docs/schedules/general.md): fuse or split, compress or not,
// group by group, whatever the simulator finds fastest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "paceline/core/schedule/simulate.h"

namespace paceline::schedule {

struct GeneralSettings {
  Conditions conditions = {};
  std::optional<Path> only = {};  // plans on this path alone
  bool crosses_barrier = true;    // else plans with a barrier alone
  int most_simulations = 500;     // of the local search; the starting plans come on top
  std::uint64_t seed = 1;
};

struct GeneralPlan {
  Plan plan;  // called "general"
  double seconds = 0;
  std::string start;         // the starting plan that the search improved, "MG-WFBP" or "prio"
  double start_seconds = 0;  // of it: no starting plan is faster
  int simulations = 0;
};

// The fastest starting plan, then a local search: merge, split and shift groups, change codec,
// path, priority, parts and window. Every codec of `costs` may be used. The same arguments, the
// same plan. COST: BERT-Large some tenths of a second.
GeneralPlan general(const Model& model, const Costs& costs, const GeneralSettings& settings = {});

}  // namespace paceline::schedule
