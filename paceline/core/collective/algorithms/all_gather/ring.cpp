// Ring all_gather: every chunk travels once round the ring.
//
// 4 ranks. The chunk that each rank sends to the next one:
//     round    rank 0    rank 1    rank 2    rank 3
//       0      0         1         2         3
//       1      3         0         1         2
//       2      2         3         0         1
//
// Rounds: n-1, one message each. Bytes a rank: (n-1)/n of the output (a lower bound).
// Ranks: any n >= 1, any counts. Order of summation: nothing is summed.
// Reference: Thakur, Rabenseifner, Gropp, IJHPCA 2005; docs/algorithms/ring.md.
#include "paceline/core/collective/program/program.h"

namespace paceline::collective::catalogue::all_gather {
namespace {

Program build(const Shape& shape) {
  const int n = shape.ranks, own = shape.rank;
  const int next = (own + 1) % n, previous = (own + n - 1) % n;
  const auto chunk = [&](int hops_back) { return (own - hops_back + n) % n; };

  Program program{.chunks = n};
  for (int hop = 0; hop < n - 1; ++hop) {
    const Slot leaving = hop == 0 ? input(own) : output(chunk(hop));
    program.rounds.push_back({send(next, leaving), recv(previous, output(chunk(hop + 1)))});
  }
  if (n == 1) program.rounds.emplace_back();
  program.rounds.back().push_back(copy(input(own), output(own)));
  return program;
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = n - 1, .messages = 1L * n * (n - 1), .chunks = n - 1};
}

}  // namespace

Algorithm ring() {
  return {.operation = Operation::all_gather,
          .name = "ring",
          .purpose = "long vectors over a network: neighbours alone talk",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_gather
