// A program made ready for execution: each message numbered, each view's end known. Made once for a
// shape, used by every call.
#pragma once

#include <memory>
#include <vector>

#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

struct Action {
  Step step;
  // Messages between two ranks are numbered in program order, for each direction; both sides count
  // the same.
  int number = -1;
  // recv into scratch that is only read by reductions here: the payload may stay in the peer's
  // memory, and is given back after this round. -1: it must be copied.
  int view_until = -1;
  // reduce: whether its operands and its target are partial sums that only other reductions here
  // read. f16 and bf16 are then held as f32 and not rounded.
  bool wide_source = false;
  bool wide_operand = false;
  bool wide_target = false;
  // reduce: the stores of its target in the next round (their indices there), if that round stores
  // nothing else. Where the peers' memory is in reach they are written block by block together with
  // the reduction, while the block is in the nearest cache.
  std::vector<int> stores = {};
};

struct ProgramPlan {
  int chunks = 0;
  // A plan may number only the chunks that its rank touches. This is then the program's number of
  // each, in ascending order. Empty: they keep the program's numbers.
  std::vector<int> program_chunks;
  int scratch_places = 0;
  std::vector<std::vector<Action>> rounds;
  struct Place {
    int round = 0;
    int action = 0;
  };
  std::vector<std::vector<Place>> receives;  // [peer][number]: the action that takes the message
  std::vector<int> sends;                    // [peer]: messages of one segment to it
  bool has_wide_sums = false;
  bool stores = false;      // a step does
  bool rounds_once = true;  // no partial sum is rounded: each lies in f32, or it is the whole sum
};

std::shared_ptr<const ProgramPlan> make_plan(const Program& program, int ranks);

// The same with ProgramPlan::program_chunks: no larger than the program's steps, where it has a
// chunk for each pair of ranks (all_to_all) of which its rank touches few.
std::shared_ptr<const ProgramPlan> make_plan_of_touched_chunks(Program program, int ranks);

}  // namespace paceline::collective
