// Each operation gives chunks to a rank and wants others of it: which chunks lie in its input,
// which its output must hold at the end. The one place that says so; programs are checked and run
// by it.
#pragma once

#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

// Operations that are made of chunks, so that programs can be shown and proved. Those of a barrier
// have no bytes: chunk r is rank r's arrival signal.
bool has_programs(Operation operation);
// Operations that programs carry out when they are called: not barrier, of which every rank hears
// by the calls themselves (docs/decisions/0002-calls-go-to-all-ranks.md).
bool is_carried_by_programs(Operation operation);

// The number of chunks that a program must have: one for each rank, one for each pair of them; 0:
// as many as it likes.
int chunks_needed(Operation operation, int ranks);

// The contract of rank shape.rank.
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
