// The price of a collective, from its programs alone.
#pragma once

#include <cstddef>

#include "paceline/core/collective/partition.h"
#include "paceline/core/collective/program.h"
#include "paceline/core/topology/prices.h"

namespace paceline::collective {

// Seconds until the last rank is done: every rank has one full-duplex port (messages of a round
// leave one after the other, and arrive one after the other, alpha + bytes * beta each; what goes
// to one peer in one round is one message and has one alpha), a round ends when its messages are
// through, reductions cost gamma a byte and do not overlap. `partition` in elements of
// `element_bytes`. No contention between links.
double cost(const Algorithm& algorithm, const Shape& shape, const Partition& partition,
            std::size_t element_bytes, const topology::Prices& prices);

}  // namespace paceline::collective
