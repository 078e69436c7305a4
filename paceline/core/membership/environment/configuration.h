// The configuration that must be the same on all members of a job, besides their calls: which
// Paceline they are, and how they are set.
//
// Each member publishes its own when it joins, and compares every other's with it, so that a
// difference is told at the start and not by a result that is wrong later.
#pragma once

#include <climits>
#include <optional>
#include <string>

#include "paceline/core/membership/environment/environment.h"

namespace paceline::membership {

// A line "name=value" for each thing, in an order that all versions keep: the version first.
std::string configuration_of(const Environment& environment);

// Returns nothing when they are equal; otherwise the failure (mismatch) that names the first thing
// that differs, both values and the remedy. Members with a number of `ranks` or above are servers.
std::optional<Failure> first_difference(const std::string& own, int own_member,
                                        const std::string& theirs, int their_member,
                                        int ranks = INT_MAX);

}  // namespace paceline::membership
