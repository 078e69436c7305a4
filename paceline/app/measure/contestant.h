// A candidate names an operation and how it is carried out. A contestant is one with its memory on
// one rank; the measuring loop runs it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "paceline/core/base/dtype.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/collective/program/operation.h"
#include "paceline/core/job/job.h"

namespace paceline::measure {

// The unit of measurement: one operation, carried out by one algorithm, on buffers of one length.
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

// The same, but the operation works on memory of a device. fill() and wrong() work in `memory` on
// the host and copy it to or from the device; only operate() is timed. THROWS Error: misuse, there
// is no such device; io, it has not enough memory.
std::unique_ptr<Contestant> make_device_contestant(Job& job, int device, Communicator& group,
                                                   const Candidate& candidate, MutableBytes memory);

// A contestant that works with the servers of a job. A candidate's algorithm names the operation of
// servers. (Its own operation is all_reduce.)
//   push_pull  the servers form the sum of all workers' arrays (schedule/path/push_pull.h)
//   push       each worker adds an array to a table, which applies it at once, and has the answer
//   pull       each worker reads the table
//
// REQUIRES: a job with servers, f32 or f64. Every worker makes it, in the same order. `memory` is
// as for make_contestant. THROWS Error (misuse): no such operation.
std::unique_ptr<Contestant> make_server_contestant(Job& job, const Candidate& candidate,
                                                   MutableBytes memory);

}  // namespace paceline::measure
