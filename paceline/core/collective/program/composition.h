// Programs made of programs: what makes hierarchical algorithms without a copy of any other.
//
//   in_sequence({on(row, partial(reduce_scatter)), on(column, reads_output(all_reduce)),
//                on(row, reads_output(all_gather))})
//
// Every function takes and returns one rank's program, and all ranks compose in the same way.
#pragma once

#include <vector>

#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

// The place of a smaller program in a larger one.
struct CompositionPart {
  std::vector<int> ranks;  // its rank i is rank ranks[i] of the larger one
  // Its chunk c is these chunks of the larger one, in this order; none: what it does to c vanishes.
  std::vector<std::vector<int>> chunks;
  int of_chunks = 0;  // chunks of the larger one
};

// `program` by the ranks and on the chunks of `part`. A step for a chunk becomes a step for each of
// its chunks. REQUIRES: part.chunks.size() == program.chunks, and no chunk twice.
Program on(const CompositionPart& part, const Program& program);

// One after the other. REQUIRES: at least one, all of the same chunks.
Program in_sequence(const std::vector<Program>& programs);

// Side by side, round by round. REQUIRES: as in_sequence, and no two of them touch the same chunk.
// A rank that waits in a round waits for all of it: where messages meet, the rounds must be the
// same for all ranks, empty ones among them.
Program side_by_side(const std::vector<Program>& programs);

// The same without rounds in which nothing is done.
Program without_empty_rounds(Program program);

// The same where its input lies in the output already, as what a part before it has left there.
Program reads_output(Program program);

// The same where the chunks that it reads from the output before it has written them lie in the
// input instead, as the operation's own input does.
Program reads_input(Program program);

// The same for a rank whose output has chunk `kept` alone, as in reduce_scatter (-1: no output at
// all): the other chunks of its output lie in scratch.
Program others_in_scratch(Program program, int kept);

// The same, and in its last round, where nobody waits for it, input(chunk) is copied to the output.
Program with_copy(Program program, int chunk);

// The same where what it sums up is not the whole sum: no step completes.
Program partial(Program program);

// The same with sends for stores: for where a peer may still use the slot that a store would write
// (verify says so).
Program without_stores(Program program);

// The reverse program: rounds in reverse order, sender and receiver exchanged, each message a copy
// from output to output. Of a reduction to one rank it makes the broadcast from there, of
// a reduce_scatter the all_gather.
Program way_back(const Program& program);

}  // namespace paceline::collective
