// Slurm's short forms for many hosts: "n[01-03,7],login" and "2(x3),1".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline::membership {

// "n[01-03,7],login" -> n01 n02 n03 n7 login; several brackets in a name multiply. The failure
// (misuse) shows the part that is wrong.
Result<std::vector<std::string>> parse_node_list(std::string_view text);

// "2(x3),1" -> 2 2 2 1: tasks of each node, as in SLURM_STEP_TASKS_PER_NODE.
Result<std::vector<int>> parse_tasks_per_node(std::string_view text);

}  // namespace paceline::membership
