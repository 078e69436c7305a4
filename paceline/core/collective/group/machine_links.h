// MachineLinks: the links on which a machine runs among the ranks of a group, beside its operations
// (core/coordination/machine_run.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/core/membership/generation/generation.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::collective {

// A value. Its parts may outlive the group.
struct MachineLinks {
  std::shared_ptr<transport::Reactor> reactor;
  std::shared_ptr<membership::Generation> generation;
  std::chrono::milliseconds timeout, stall_time;  // of the group's operations
  std::uint32_t number = 0;                       // marks the machine's frames on all ranks
  std::vector<int> world_ranks = {};              // by rank in the group
};

}  // namespace paceline::collective
