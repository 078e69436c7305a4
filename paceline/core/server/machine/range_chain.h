// RangeChain: one server's part in the chain of a range.
#pragma once

#include "paceline/core/server/control/replica_chain.h"
#include "paceline/core/server/machine/range_state.h"

namespace paceline::server {

extern template class ReplicaChain<RangeState>;

// A value, but for the shape that it reads. THREAD: one.
class RangeChain final : public ReplicaChain<RangeState> {
 public:
  using ReplicaChain::ReplicaChain;

  // The row for a worker's pull.
  RangeValue::View row_for(int reader, std::uint32_t pull, std::int64_t least) {
    return changing_state().row_for(reader, pull, least);
  }
};

}  // namespace paceline::server
