// Claims that hold for every transport and every engine; each rank of a group checks them.
// Threads do so (tests/core/collective/group/conformance_test.cpp), and processes
// under launchers (tests/processes/programs/conformance.cpp).
#pragma once

#include <span>
#include <string_view>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"

namespace paceline::test {

struct Claim {
  std::string_view name;
  // Every rank calls it on a group of all ranks, at least two, with Determinism::fast. THROWS
  // Broken (reference.h) or Error if the claim does not hold.
  void (*check)(Job& job, Communicator& group);
  // It leaves a dead generation behind, so it must be the last claim of its job.
  bool ends_generation = false;
};

std::span<const Claim> conformance();

}  // namespace paceline::test
