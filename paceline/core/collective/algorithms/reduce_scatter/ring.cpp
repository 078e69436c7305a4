// Ring reduce_scatter: a growing sum of each chunk travels round the ring and ends at its owner.
//
// 4 ranks, chunks 0..3. What each rank sends to the next one (1+2 is the sum of ranks 1 and 2):
//     round    rank 0            rank 1            rank 2            rank 3
//       0      chunk 3: 0        chunk 0: 1        chunk 1: 2        chunk 2: 3
//       1      chunk 2: 3+0      chunk 3: 0+1      chunk 0: 1+2      chunk 1: 2+3
//       2      chunk 1: 2+3+0    chunk 2: 3+0+1    chunk 3: 0+1+2    chunk 0: 1+2+3
//      end     owns chunk 0      owns chunk 1      owns chunk 2      owns chunk 3
//
// Rounds: n-1, one message each. Bytes a rank: (n-1)/n of the input (a lower bound).
// Ranks: any n >= 1, any counts.
// Order of summation: (((c+1) + (c+2)) + ..) + c, ranks mod n, for chunk c: class D2, and not the
// balanced tree.
// Reference: Patarasuk and Yuan, JPDC 2009; docs/algorithms/ring.md, shifted so that rank r gets
// chunk r.
#include <algorithm>

#include "paceline/core/collective/program/program.h"

namespace paceline::collective::catalogue::reduce_scatter {
namespace {

Program build(const Shape& shape) {
  const int n = shape.ranks, own = shape.rank;
  Program program{.chunks = n, .scratch_places = std::clamp(n - 2, 0, 2)};
  if (n == 1) {
    program.rounds = {{completing(copy(input(0), output(0)))}};
    return program;
  }
  const int next = (own + 1) % n, previous = (own + n - 1) % n;
  const auto chunk = [&](int hops_back) { return (own - 1 - hops_back + 2 * n) % n; };

  // Two places take turns: the sum that leaves in a round lies in the one, the sum that arrives
  // goes to the other.
  for (int hop = 0; hop < n - 1; ++hop) {
    const int leaving = chunk(hop), arriving = chunk(hop + 1);
    const Slot partial = hop == 0 ? input(leaving) : scratch((hop - 1) % 2, leaving);
    const Slot sum = hop == n - 2 ? output(own) : scratch(hop % 2, arriving);
    Step add = recv_reduce(previous, input(arriving), sum, /*operand_is_left=*/false);
    add.completes = hop == n - 2;
    program.rounds.push_back({send(next, partial), add});
  }
  return program;
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = n - 1, .messages = 1L * n * (n - 1), .chunks = n - 1};
}

}  // namespace

Algorithm ring() {
  return {.operation = Operation::reduce_scatter,
          .name = "ring",
          .purpose = "long vectors over a network: neighbours alone talk",
          .determinism = DeterminismClass::d2,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::reduce_scatter
