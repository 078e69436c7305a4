// Candidates against each other: the measuring loop.
//
//   block 0 (warms up)      block 1                     ...
//   A A A.. B B B.. Y Y Y..  A A A.. B B B.. Y Y Y..         Y: the yardstick
//
// A ratio is taken within a block, so that the machine's moods cancel; the median of the blocks'
// ratios and their spread are what counts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "paceline/app/measure/candidate.h"
#include "paceline/core/collective/communicator.h"
#include "paceline/core/job/job.h"

namespace paceline::measure {

struct CompareOptions {
  int blocks = 9;
  int operations = 0;  // of a candidate in a block; 0: 20, more of short ones, fewer of very long
  bool ordinary_buffers = false;  // of the heap; else from Job::allocate
  bool yardstick = false;         // REQUIRES: a group on one host, of 2 to 8 ranks
  // As the peers of bench/against are measured: one operation after the other on zeroed buffers,
  // with no start line between, and the time is rank 0's. Else buffers are rewritten and read.
  bool back_to_back = false;
  std::function<void(int block, int blocks)> on_block = {};  // called when one has ended
};

// The same on all ranks of the group.
struct Measurement {
  Candidate candidate = {};
  std::vector<double> seconds = {};        // each operation's, of all blocks in their order
  std::vector<double> block_medians = {};  // seconds
  std::int64_t errors = 0;                 // wrong elements, of all ranks and operations
  // Sent by the programs of all ranks in one operation; 0: it went another way (an engine, a
  // board).
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

// Block by block: the one's median time over the other's.
std::vector<double> ratios(const Measurement& one, const Measurement& other);

}  // namespace paceline::measure
