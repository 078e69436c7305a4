// The costs of a collective that do not depend on its length, counted in the programs of all ranks.
#pragma once

#include <span>
#include <vector>

#include "paceline/core/collective/program/program.h"
#include "paceline/core/collective/proof/matching.h"

namespace paceline::collective {

// Chunks that each rank sends or stores.
std::vector<long> sent_chunks(std::span<const Program> programs);

// REQUIRES: the programs have met as `meeting` says.
Counters count(std::span<const Program> programs, const Rendezvous& meeting);

}  // namespace paceline::collective
