// Do all ranks have the same model, the same options and the same learning rates?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::replica {

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

// A number for all rates that occur. 0: one has options that tell no rate.
std::uint64_t fingerprint_of_rates(const Optimizers& optimizers);

// Collective: for ranks whose fingerprints differ. `leaves`: what this rank's optimizers step, by
// the names that all ranks use; a rank may have some of them alone. THROWS Error (mismatch), on all
// ranks, that names the first leaf whose rate differs, and two rates.
void require_same_rates(Communicator& group, const std::vector<Parameter>& leaves,
                        const Optimizers& optimizers);

}  // namespace paceline::replica
