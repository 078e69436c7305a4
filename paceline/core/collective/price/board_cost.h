// The price of an all_reduce on a board (carrier/board.h), in the terms of the model by which
// programs are priced (cost.h): the same on all ranks, since it follows from the profile and the
// topology that all have.
#pragma once

#include <cstddef>

#include "paceline/core/topology/topology.h"

namespace paceline::collective {

// Seconds until the last rank has the sum. Each rank comes to the board twice: to post, and when
// the others have. Of short inputs it then sums up all for itself; of others `owners` ranks sum up
// a chunk each where all inputs lie, and write the sum where all outputs lie, or where all take it.
// REQUIRES: all ranks are on one host and share memory.
double board_cost(std::size_t bytes, int owners, const topology::Topology& topology,
                  const topology::Profile& profile);

// Seconds until all ranks of a host know that all have made a call that programs carry: the frames
// by which they tell each other (agreement/fingerprint_barrier.h).
double agreement_cost(const topology::Topology& topology, const topology::Profile& profile);

}  // namespace paceline::collective
