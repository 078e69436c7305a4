// Star all_reduce: rank 0 takes every rank's buffer, sums them up, and sends the sum to all.
//
// 4 ranks, the whole buffer in each message:
//     round 0    1, 2, 3 --> 0
//     round 1    a = x0 + x1,  b = x2 + x3
//     round 2    output = a + b
//     round 3    0 --> 1, 2, 3
//
// Rounds: 2 with messages, ceil(lg n) of sums between them. Messages: 2(n-1), all of rank 0.
// Bytes: n-1 times the buffer into and out of rank 0. For very short buffers and few ranks.
// Ranks: any n >= 1. Order of summation: the balanced tree in rank order (class D3).
// Reference: docs/algorithms/star.md. In the textbook rank 0 adds one rank after the other; the
// balanced tree costs as many sums, and `reproducible` promises it.
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::all_reduce {
namespace {

Program build(const Shape& shape) {
  Shape to_rank_0 = shape;
  to_rank_0.root = 0;
  const Program sums = sum_at_root(to_rank_0);
  return in_sequence({sums, way_back(sums)});
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = n == 1 ? 0 : 2, .messages = 2 * (n - 1), .chunks = n - 1};
}

}  // namespace

Algorithm star() {
  return {.operation = Operation::all_reduce,
          .name = "star",
          .purpose = "very short buffers, few ranks: rank 0 sums all",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_reduce
