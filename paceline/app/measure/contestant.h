// A contestant is an operation with its memory on one rank; the measuring loop runs it.
#pragma once

#include <cstddef>
#include <memory>

#include "paceline/app/measure/candidate.h"
#include "paceline/core/collective/group/communicator.h"

namespace paceline::measure {

class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual void clear() = 0;              // zeroes all its memory
  virtual void fill(int iteration) = 0;  // rewrites the buffer
  virtual void operate() = 0;
  virtual std::size_t wrong(int iteration) = 0;  // reads the buffer; elements that are not right
};

// The bytes of memory that the candidate works on.
std::size_t memory_of(const Candidate& candidate, int ranks);

// Runs the candidate's operation in place (all_to_all: from one half of the memory to the other),
// with root 0. `memory` may be shared with contestants that run at other times.
std::unique_ptr<Contestant> make_contestant(Communicator& group, const Candidate& candidate,
                                            MutableBytes memory);

}  // namespace paceline::measure
