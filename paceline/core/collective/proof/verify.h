// Proof that a program is right, without a network: all ranks' programs run together on symbols.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

// Facts that the proof finds on the way (exact for the shape that was verified).
struct Proof {
  // Every finished element is summed by the balanced tree in rank order (split at the largest power
  // of two below the count); true where nothing is summed.
  bool balanced_tree = false;
  int rounds = 0;                 // of the rank that has most, those without messages too
  int depth = 0;                  // Counters::depth
  long messages = 0;              // Counters::messages
  std::vector<long> sent_chunks;  // by rank: chunks sent or stored
  // The summation tree of chunk 0, e.g. "((0+1)+2)"; empty where nothing is summed.
  std::string tree;
};

Counters counters_of(const Proof& proof);

// Verifies the programs of all ranks of `shape.ranks` (shape.rank is ignored), in place and out of
// place, under rendezvous (a send ends when its receive has it: the strictest case): every rank
// ends with each contribution exactly once in the slots that the operation promises, the same tree
// on every rank, inputs unchanged (out of place), each send meets its receive in order, nothing can
// deadlock, no slot is written in a round that reads it, stores hit no slot that the peer still
// uses, no rank waits for ever to write what a peer reads in place, `completes` marks exactly the
// steps that finish an element, and everything costs what the algorithm states. The failure names
// the first rank, round and step at fault.
Result<Proof> verify(const Algorithm& algorithm, const Shape& shape);

}  // namespace paceline::collective
