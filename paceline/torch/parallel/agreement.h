// Do all ranks have the same model?
#pragma once

#include <string>
#include <vector>

#include "paceline/core/collective/communicator.h"

namespace paceline::parallel {

// Every rank hands in lines that describe what must be the same everywhere. Two small all_gathers
// when all agree. THROWS Error (mismatch), on every rank, that names the first rank that differs
// from rank 0 and the first line in which it does.
void require_agreement(Communicator& group, const std::vector<std::string>& lines);

}  // namespace paceline::parallel
