// Direct reduce: rank r takes every rank's chunk r, sums them up, and hands the sum to the root.
//
// 4 ranks, root 0, as rank 1 sees it:
//     round 0   0 --chunk 1--> 1 <--chunk 1-- 2, 3    (1 sends chunks 0, 2, 3 to their owners)
//     round 1   a = x0 + x1,  b = x2 + x3
//     round 2   sum of chunk 1 = a + b
//     round 3   0 <--chunk 1-- 1
//
// Rounds: 2 with messages, ceil(lg n) of sums between them. Messages a rank: n, the root's n-1.
// Bytes a rank: the buffer (the root's: (n-1)/n of it), so no rank is a bottleneck. For long
// buffers. Ranks: any n >= 1, any root. Order of summation: the balanced tree in rank order, for
// every chunk (class D3). Reference: Thakur, Rabenseifner, Gropp, IJHPCA 2005;
// docs/algorithms/direct.md, "large: RS + gather".
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/program.h"

namespace paceline::collective::catalogue::reduce {
namespace {

Program build(const Shape& shape) {
  const int n = shape.ranks, own = shape.rank, root = shape.root;
  if (own != root) {
    // Its sum lies in a place of its own, which no peer sends to.
    Program program = sum_of_own_chunk(shape, scratch(own, own));
    program.rounds.push_back({send(root, scratch(own, own))});
    return program;
  }
  Program program = sum_of_own_chunk(shape, output(own));
  if (n == 1) return program;
  Round collect;
  for (int distance = 1; distance < n; ++distance) {
    const int peer = (own + distance) % n;
    collect.push_back(recv(peer, output(peer)));
  }
  program.rounds.push_back(collect);
  return program;
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = n == 1 ? 0 : 2, .messages = 1L * (n + 1) * (n - 1), .chunks = n == 1 ? 0 : n};
}

}  // namespace

Algorithm direct() {
  return {.operation = Operation::reduce,
          .name = "direct",
          .purpose = "long buffers: every rank sums a part of them",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::reduce
