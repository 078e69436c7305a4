// Ring all_reduce: a growing sum of each chunk travels once round the ring, then the result does.
//
// 4 ranks, chunks 0..3. What each rank sends to the next one (0+1 is the sum of ranks 0 and 1):
//     round    rank 0            rank 1            rank 2            rank 3
//       0      chunk 0: 0        chunk 1: 1        chunk 2: 2        chunk 3: 3
//       1      chunk 3: 3+0      chunk 0: 0+1      chunk 1: 1+2      chunk 2: 2+3
//       2      chunk 2: 2+3+0    chunk 3: 3+0+1    chunk 0: 0+1+2    chunk 1: 1+2+3
//     3..5     chunk 1 is complete on rank 0, 2 on 1, 3 on 2, 0 on 3: they go round once more
//
// Rounds: 2(n-1), one message each. Bytes a rank: 2(n-1)/n of the buffer (a lower bound).
// Ranks: any n >= 1.
// Order of summation: ((c + (c+1)) + (c+2)) + .., ranks mod n, for chunk c: class D2, and not the
// balanced tree.
// Reference: Patarasuk and Yuan, JPDC 2009; docs/algorithms/ring.md.
#include "paceline/core/collective/program/program.h"

namespace paceline::collective::catalogue::all_reduce {
namespace {

Program build(const Shape& shape) {
  const int n = shape.ranks, own = shape.rank;
  Program program{.chunks = n};
  if (n == 1) {
    program.rounds = {{completing(copy(input(0), output(0)))}};
    return program;
  }
  const int next = (own + 1) % n, previous = (own + n - 1) % n;
  const auto chunk = [&](int hops_back) { return (own - hops_back + 2 * n) % n; };

  // The own part is added from the input into the output, so that nothing is copied beforehand.
  for (int hop = 0; hop < n - 1; ++hop) {
    const Slot partial = hop == 0 ? input(chunk(0)) : output(chunk(hop));
    const int arriving = chunk(hop + 1);
    Step add = recv_reduce(previous, input(arriving), output(arriving), /*operand_is_left=*/false);
    add.completes = hop == n - 2;
    program.rounds.push_back({send(next, partial), add});
  }
  for (int hop = 0; hop < n - 1; ++hop) {
    program.rounds.push_back(
        {send(next, output(chunk(hop - 1))), recv(previous, output(chunk(hop)))});
  }
  return program;
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = 2 * (n - 1), .messages = 2L * n * (n - 1), .chunks = 2 * (n - 1)};
}

}  // namespace

Algorithm ring() {
  return {.operation = Operation::all_reduce,
          .name = "ring",
          .purpose = "long buffers over a network: neighbours alone talk",
          .determinism = DeterminismClass::d2,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_reduce
