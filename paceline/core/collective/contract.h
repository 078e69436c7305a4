// What each operation gives to a rank and wants of it: which chunks lie in its input, which its
// output must hold at the end. The one place that says so; programs are checked and run by it.
#pragma once

#include "paceline/core/collective/program.h"

namespace paceline::collective {

// Operations that programs carry out; the others move nothing (barrier), or no chunks (send, recv).
bool has_programs(Operation operation);

// How many chunks a program must have: one for each rank, one for each pair of them; 0: as many as
// it likes.
int chunks_needed(Operation operation, int ranks);

// Of shape.rank.
bool has_input(Operation operation, const Shape& shape, int chunk);
bool has_output(Operation operation, const Shape& shape, int chunk);

// The rank whose input ends in the outputs that hold `chunk`. REQUIRES: the operation is no
// reduction.
int source_of(Operation operation, const Shape& shape, int chunk);

// all_to_all: the chunk that `from` sends to `to`.
constexpr int chunk_between(int ranks, int from, int to) {
  return from * ranks + to;
}

}  // namespace paceline::collective
