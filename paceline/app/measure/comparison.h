// The measuring loop, which runs candidates against each other.
//
//   block 0 (warms up)      block 1                     ...
//   A A A.. B B B.. Y Y Y..  A A A.. B B B.. Y Y Y..         Y: the yardstick
//
// A ratio is taken within a block, so that changes of the machine's speed cancel; the results are
// the median of the blocks' ratios and their spread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "paceline/app/measure/contestant.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"

namespace paceline::measure {

struct CompareOptions {
  int blocks = 9;
  // Those of a candidate in a block; 0: 20, more if they are short, fewer if very long.
  int operations = 0;
  bool ordinary_buffers = false;  // from the heap; else from Job::allocate
  bool yardstick = false;         // REQUIRES: a group on one host, of 2 to 8 ranks
  // Measures as bench/against measures its peers: one operation after the other on zeroed buffers,
  // with no start line between, timed on rank 0. Otherwise buffers are rewritten and read.
  bool back_to_back = false;
  std::function<void(int block, int blocks)> on_block = {};  // called when one has ended
  // Makes the contestant of a candidate; all ranks make them in the same order.
  std::function<std::unique_ptr<Contestant>(Communicator& group, const Candidate& candidate,
                                            MutableBytes memory)>
      make = make_contestant;
};

// The same on all ranks of the group.
struct Measurement {
  Candidate candidate = {};
  std::vector<double> seconds = {};        // of each operation, in the order of the blocks
  std::vector<double> block_medians = {};  // seconds
  std::int64_t errors = 0;                 // wrong elements in all ranks and operations
  // Messages that the programs of all ranks send in one operation; 0: the data went another way (an
  // engine, a board).
  std::int64_t messages = 0;
};

struct Comparison {
  std::vector<Measurement> candidates = {};  // in the order in which they were given
  std::optional<Measurement> yardstick = {};
};

// Blocks; every rank of the group must call it with the same arguments. The calling threads should
// be pinned (pin.h). THROWS Error: misuse (an algorithm that the group cannot use, a yardstick
// where it cannot be), and what the operations throw.
Comparison compare(Job& job, Communicator& group, std::span<const Candidate> candidates,
                   const CompareOptions& options = {});

// The ratio of the median times, `one` over `other`, block by block.
std::vector<double> ratios(const Measurement& one, const Measurement& other);

}  // namespace paceline::measure
