// The general scheduler (docs/schedules/general.md) decides for each group whether to fuse or split
// and whether to compress, by the simulator's time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "paceline/core/schedule/simulation/simulate.h"

namespace paceline::schedule {

struct GeneralSettings {
  Conditions conditions = {};
  std::optional<Path> only = {};  // restricts plans to this path
  bool crosses_barrier = true;    // else only plans with a barrier
  int most_simulations = 500;     // of the local search; the starting plans come in addition
  std::uint64_t seed = 1;
};

struct GeneralPlan {
  Plan plan;  // called "general"
  double seconds = 0;
  std::string start;         // the starting plan that the search improved, "MG-WFBP" or "prio"
  double start_seconds = 0;  // its seconds: no starting plan is faster
  int simulations = 0;
};

// Takes the fastest starting plan, then improves it by a local search: merge, split and shift
// groups, change codec, path, priority, parts and window. Every codec of `costs` may be used. Equal
// arguments give equal plans. COST: some tenths of a second for BERT-Large.
GeneralPlan general(const Model& model, const Costs& costs, const GeneralSettings& settings = {});

}  // namespace paceline::schedule
