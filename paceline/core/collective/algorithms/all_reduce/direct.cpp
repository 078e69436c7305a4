// Direct all_reduce: rank r takes every rank's chunk r, sums them up, and hands the sum to all.
//
// 4 ranks, as rank 1 sees it; the others do the same with their own chunk:
//     round 0   0 --chunk 1--> 1 <--chunk 1-- 2, 3    (1 sends chunks 0, 2, 3 to their owners)
//     round 1   a = x0 + x1,  b = x2 + x3
//     round 2   chunk 1 = a + b
//     round 3   0 <--chunk 1-- 1 --chunk 1--> 2, 3
//
// Rounds: 2 with messages, ceil(lg n) of sums between them. Messages a rank: 2(n-1).
// Bytes a rank: 2(n-1)/n of the buffer (a lower bound). Ranks: any n >= 1.
// Order of summation: the balanced tree in rank order, for every chunk (class D3).
// Reference: Thakur, Rabenseifner, Gropp, IJHPCA 2005 (pairwise exchange);
// docs/algorithms/direct.md.
//
// Over shared memory the receives of round 0 are views of the peers' buffers and the stores are
// writes into them: the whole operation reads each input once and writes each output once.
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/program.h"

namespace paceline::collective::catalogue::all_reduce {
namespace {

Program build(const Shape& shape) {
  const int n = shape.ranks, own = shape.rank;
  Program program = sum_of_own_chunk(shape, output(own));
  if (n == 1) return program;
  Round spread;
  for (int distance = 1; distance < n; ++distance) {
    const int peer = (own + distance) % n;
    spread.push_back(store(peer, output(own), output(own)));
    spread.push_back(recv(peer, output(peer)));
  }
  program.rounds.push_back(spread);
  return program;
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = n == 1 ? 0 : 2, .messages = 2L * n * (n - 1), .chunks = 2 * (n - 1)};
}

}  // namespace

Algorithm direct() {
  return {.operation = Operation::all_reduce,
          .name = "direct",
          .purpose = "one host; few rounds with the least bytes",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_reduce
