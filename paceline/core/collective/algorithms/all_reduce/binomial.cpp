// Binomial all_reduce: sum up a binomial tree to rank 0, then send the result down the same edges.
//
// 4 ranks, the whole buffer in each message:
//     up, distance 1      0 <-- 1     2 <-- 3        0 holds 0+1, 2 holds 2+3
//     up, distance 2      0 <-------- 2              0 holds (0+1)+(2+3)
//     down, distance 2    0 --------> 2
//     down, distance 1    0 --> 1     2 --> 3
//
// Rounds: 2 ceil(lg n) on rank 0. Messages: 2(n-1) in all.
// Bytes: ceil(lg n) times the buffer from rank 0, and no rank sends more. For short buffers.
// Ranks: any n >= 1. Order of summation: the balanced tree in rank order (class D3).
// Reference: Thakur, Rabenseifner, Gropp, IJHPCA 2005; docs/algorithms/binomial.md.
#include <algorithm>

#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/program.h"

namespace paceline::collective::catalogue::all_reduce {
namespace {

// The edges of one rank, from the leaves to the root: either to the parent, or from a child.
std::vector<Round> reduce_to_rank_0(const Shape& shape) {
  std::vector<Round> rounds;
  Slot sum = input(0);
  for (int distance = 1; distance < shape.ranks; distance *= 2) {
    if (shape.rank % (2 * distance) != 0) {
      rounds.push_back({send(shape.rank - distance, sum)});
      return rounds;
    }
    if (shape.rank + distance >= shape.ranks) continue;
    rounds.push_back(
        {recv_reduce(shape.rank + distance, sum, output(0), /*operand_is_left=*/true)});
    sum = output(0);
  }
  return rounds;
}

// The same edges with the direction reversed, from the root to the leaves.
std::vector<Round> turned_round(std::vector<Round> rounds) {
  std::ranges::reverse(rounds);
  for (Round& round : rounds) {
    Step& step = round[0];
    const bool up = step.kind == Step::Kind::send;
    step = up ? recv(step.peer, output(0)) : send(step.peer, output(0));
  }
  return rounds;
}

Program build(const Shape& shape) {
  Program program{.chunks = 1};
  if (shape.ranks == 1) {
    program.rounds = {{completing(copy(input(0), output(0)))}};
    return program;
  }
  program.rounds = reduce_to_rank_0(shape);
  const std::vector<Round> down = turned_round(program.rounds);
  if (shape.rank == 0) program.rounds.back()[0].completes = true;
  program.rounds.insert(program.rounds.end(), down.begin(), down.end());
  return program;
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = 2 * tree_levels(n), .messages = 2 * (n - 1), .chunks = tree_levels(n)};
}

}  // namespace

Algorithm binomial() {
  return {.operation = Operation::all_reduce,
          .name = "binomial",
          .purpose = "short buffers: up a tree and down again",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_reduce
