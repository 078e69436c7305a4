// Do all ranks have the same model and the same options?
#pragma once

#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"

namespace paceline::parallel {

// Every rank hands in lines that describe what must be the same everywhere. One small all_gather
// when all agree. THROWS Error (mismatch), on every rank, that names the first rank that differs
// from rank 0 and the first line in which it does.
void require_agreement(Communicator& group, const std::vector<std::string>& lines);

// One option of a user's, and its value as messages tell it, in one line.
struct GivenOption {
  std::string name, value;
};

// Every rank hands in the same names. One small all_gather when all agree. THROWS Error (mismatch),
// on every rank, that tells each setting that differs, with rank 0's value and the other one.
void require_same_settings(Communicator& group, const std::vector<GivenOption>& settings);

}  // namespace paceline::parallel
