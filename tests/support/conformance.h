// What every transport and every engine must do, as a list of claims that each rank of a group
// checks. Threads go through it (tests/core/collective/group/conformance_test.cpp), and processes
// under launchers (tests/processes/programs/conformance.cpp).
#pragma once

#include <span>
#include <string_view>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"

namespace paceline::test {

struct Claim {
  std::string_view name;
  // Every rank calls it on a group of all ranks, two at least, of Determinism::fast. THROWS Broken
  // (reference.h) or Error where it does not hold.
  void (*check)(Job& job, Communicator& group);
  // It leaves a dead generation behind: the last one of its job.
  bool ends_generation = false;
};

std::span<const Claim> conformance();

}  // namespace paceline::test
