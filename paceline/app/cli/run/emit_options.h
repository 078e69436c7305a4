// The options of `paceline run --emit`: which manifest is asked for, and the run as its plan.
#pragma once

#include <string>
#include <vector>

#include "paceline/app/launch/launch.h"

namespace paceline::cli {

struct GivenWord {
  std::string option, value;  // an empty value: a flag
};

// The values are as the user wrote them.
struct EmitOptions {
  std::string image, volume;
  std::string name;  // the job's; empty: the program's
  int nodes = 1;
  std::vector<GivenWord> for_launchers = {};  // options of each node's `paceline run`
};

// THROWS Error (misuse) that lists the targets.
const launch::Target& parse_target(const std::string& text);

// "slurm (a batch script for sbatch), ..." for the help.
std::string targets_text();

// `run` holds the options that have been checked. `settings` are the variables that reach the
// workers of every run. THROWS Error (misuse): an option makes no sense for the target, something
// that it needs is missing, or checkpoints and logs would end with their containers.
launch::RunPlan plan_of(const launch::Target& target, const EmitOptions& given,
                        const launch::RunOptions& run, const launch::Environment& settings);

}  // namespace paceline::cli
