// Direct all_gather: each rank puts its chunk into every other rank's output.
//
// 4 ranks, one round, as rank 1 sees it:
//     0 <--chunk 1-- 1 --chunk 1--> 2, 3        and chunks 0, 2, 3 arrive from their owners
//
// Rounds: 1. Messages a rank: n-1. Bytes a rank: n-1 times its chunk (a lower bound).
// Ranks: any n >= 1, any counts. Order of summation: nothing is summed.
// The second half of row `direct` (docs/algorithms/direct.md).
//
// Over shared memory each store is a write into the peer's output.
#include "paceline/core/collective/program/program.h"

namespace paceline::collective::catalogue::all_gather {
namespace {

Program build(const Shape& shape) {
  const int n = shape.ranks, own = shape.rank;
  Round spread;
  // Each rank starts with the peer after itself: at any moment no two of them load the same peer.
  for (int distance = 1; distance < n; ++distance) {
    const int peer = (own + distance) % n;
    spread.push_back(store(peer, input(own), output(own)));
    spread.push_back(recv(peer, output(peer)));
  }
  spread.push_back(copy(input(own), output(own)));
  return {.chunks = n, .rounds = {spread}};
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = n == 1 ? 0 : 1, .messages = 1L * n * (n - 1), .chunks = n - 1};
}

}  // namespace

Algorithm direct() {
  return {.operation = Operation::all_gather,
          .name = "direct",
          .purpose = "one host: each rank writes its part into all outputs",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_gather
