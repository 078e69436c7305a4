// The unit of measurement: one operation, carried out by one algorithm, on buffers of one length.
#pragma once

#include <cstddef>
#include <string>

#include "paceline/core/base/dtype.h"
#include "paceline/core/collective/program/operation.h"

namespace paceline::measure {

struct Candidate {
  Operation operation = Operation::all_reduce;
  std::string algorithm = {};  // a name of the catalogue; empty: what the communicator chooses
  // The bytes of one rank's buffer for all_reduce, broadcast and reduce; for the others the bytes
  // of the whole vector, of which each rank has a part. 0 for barrier.
  std::size_t bytes = 0;
  Dtype dtype = Dtype::f32;
  bool operator==(const Candidate&) const = default;
};

// Elements of the buffer: at least one (for operations whose parts must be equal, one for each
// rank), and no more than fit into `bytes`. 0 for barrier.
std::size_t count_of(const Candidate& candidate, int ranks);

// Bus bandwidth = factor * bytes / time: what the hardware would carry if the operation moved every
// byte once. The
// factors are those of nccl-tests: 2(n-1)/n for all_reduce, (n-1)/n when each rank has a part, 1
// for broadcast and reduce; 0 for barrier.
double bus_factor(Operation operation, int ranks);

}  // namespace paceline::measure
