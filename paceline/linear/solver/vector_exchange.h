// How a solver's ranks exchange their vectors, and what each brings.
#pragma once

#include <cstdint>
#include <span>

#include "paceline/core/collective/group/communicator.h"

namespace paceline::linear {

// THREAD: one thread. The group outlives it.
class VectorExchange {
 public:
  explicit VectorExchange(Communicator& group) : group_(group) {}

  // Every rank ends with the sum of all ranks' values, the same to the bit. Blocks.
  void sum(std::span<double> values) {
    if (group_.size() == 1) return;
    bytes_ += values.size_bytes();
    group_.all_reduce(buffer_of(values)).wait();
  }
  // Bytes of the vectors that this rank has brought. How many travel for them is up to the
  // collective algorithm (docs/algorithms/README.md).
  std::uint64_t bytes_brought() const { return bytes_; }
  int ranks() const { return group_.size(); }
  int rank() const { return group_.rank(); }

 private:
  Communicator& group_;
  std::uint64_t bytes_ = 0;
};

}  // namespace paceline::linear
