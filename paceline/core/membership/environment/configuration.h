// The configuration that must be the same on all ranks of a job, besides their calls: which
// Paceline they are, and how they are set.
//
// Each rank publishes its own when it joins, and compares every other's with it, so that a
// difference is told at the start and not by a result that is wrong later.
#pragma once

#include <optional>
#include <string>

#include "paceline/core/membership/environment/environment.h"

namespace paceline::membership {

// A line "name=value" for each thing, in an order that all versions keep: the version first.
std::string configuration_of(const Environment& environment);

// Returns nothing when they are equal; otherwise the failure (mismatch) that names the first thing
// that differs, both values and the remedy.
std::optional<Failure> first_difference(const std::string& own, int own_rank,
                                        const std::string& theirs, int their_rank);

}  // namespace paceline::membership
