// Pairwise all_to_all: in each round every rank sends to one rank and receives from one.
//
// 4 ranks. With whom each rank exchanges (a power of two: the same rank both ways, rank xor round):
//     round    rank 0    rank 1    rank 2    rank 3
//       1      1         0         3         2
//       2      2         3         0         1
//       3      3         2         1         0
// Any other count: in round r rank i sends to i+r and receives from i-r, mod n.
//
// Rounds: n-1, one message each way. Bytes a rank: what it has for others (a lower bound).
// Ranks: any n >= 1, any matrix of counts. Order of summation: nothing is summed.
// Reference: Thakur, Rabenseifner, Gropp, IJHPCA 2005; docs/algorithms/pairwise.md.
#include <bit>

#include "paceline/core/collective/program/contract.h"

namespace paceline::collective::catalogue::all_to_all {
namespace {

Program build(const Shape& shape) {
  const int n = shape.ranks, own = shape.rank;
  const bool is_power = std::has_single_bit(static_cast<unsigned>(n));
  const auto between = [&](int from, int to) { return chunk_between(n, from, to); };

  Program program{.chunks = n * n, .rounds = {{}}};
  program.rounds[0].push_back(copy(input(between(own, own)), output(between(own, own))));
  for (int round = 1; round < n; ++round) {
    const int to = is_power ? own ^ round : (own + round) % n;
    const int from = is_power ? own ^ round : (own + n - round) % n;
    if (round > 1) program.rounds.emplace_back();
    program.rounds.back().push_back(send(to, input(between(own, to))));
    program.rounds.back().push_back(recv(from, output(between(from, own))));
  }
  return program;
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = n - 1, .messages = 1L * n * (n - 1), .chunks = n - 1};
}

}  // namespace

Algorithm pairwise() {
  return {.operation = Operation::all_to_all,
          .name = "pairwise",
          .purpose = "any counts: one partner at a time",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_to_all
