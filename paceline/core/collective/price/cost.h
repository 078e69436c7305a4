// The price of a collective, from its programs alone.
#pragma once

#include <cstddef>

#include "paceline/core/collective/price/timetable.h"
#include "paceline/core/collective/program/partition.h"
#include "paceline/core/topology/topology.h"

namespace paceline::collective {

// The data of an operation: `partition` in elements of `element_bytes`, each chunk in a number of
// segments.
struct CallSize {
  const Partition& partition;
  std::size_t element_bytes = 1;
  int segments = 1;
};

// Seconds until the last rank is done: one segment's run, and for each further segment what the
// busiest resource has to do for one (no sooner than the executor's window lets it begin).
//
// Between hosts every rank has one full-duplex port, and so has every host: messages leave one
// after the other, and arrive one after the other, alpha + bytes * beta each; a host's port is
// taken for the bytes alone. Within a host the ranks' cores do the work: half of a message's alpha
// is the sender's, half the receiver's; over sockets so are the bytes, in memory they are paid by
// who writes or copies them, and reading in place is free. A round ends when its messages are
// through; its reductions and copies come then, on the rank's core. Ranks that outnumber the
// processors they share are on one of them each, in turns, and wait until they are let run.
double cost(const Timetable& timetable, const CallSize& freight, const topology::Topology& topology,
            const topology::Profile& profile);

// A bound below that which takes no simulation.
double least_cost(const Timetable& timetable, const CallSize& freight,
                  const topology::Topology& topology, const topology::Profile& profile);

// A bound below both for which no program is made: the messages that the algorithm states
// (closed_form). 0 where less than a byte is there for each rank (all_to_all: for each pair), so
// that chunks may be empty. REQUIRES: an algorithm with no more chunks than these.
double least_cost(const Algorithm& algorithm, const Shape& shape, std::size_t bytes,
                  const topology::Topology& topology, const topology::Profile& profile);

// The simplest model (docs/guide/choice.md): each rank on a host of its own, one segment.
double cost(const Algorithm& algorithm, const Shape& shape, const Partition& partition,
            std::size_t element_bytes, const topology::Prices& prices);

}  // namespace paceline::collective
