// Linear reduce: every rank sends its buffer to the root, which sums them all up.
//
// 4 ranks, root 0:
//     round 0    1, 2, 3 --> 0
//     round 1    a = x0 + x1,  b = x2 + x3
//     round 2    output = a + b
//
// Rounds: 1 with messages, ceil(lg n) of sums. Messages: n-1, all to the root.
// Bytes: n-1 times the buffer into the root. Ranks: any n >= 1, any root.
// Order of summation: the balanced tree in rank order, whatever the root (class D3).
// The first half of `star` (docs/algorithms/linear.md).
//
// Over shared memory the receives are views: the root reads every buffer once, side by side.
#include "paceline/core/collective/building/balanced_tree.h"

namespace paceline::collective::catalogue::reduce {
namespace {

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = n == 1 ? 0 : 1, .messages = n - 1, .chunks = n == 1 ? 0 : 1};
}

}  // namespace

Algorithm linear() {
  return {.operation = Operation::reduce,
          .name = "linear",
          .purpose = "one host: the root reads all ranks side by side",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = sum_at_root,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::reduce
