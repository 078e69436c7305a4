// k-ary tree reduce: sum up a tree in which every rank has k children.
//
// 6 ranks, k = 2, root 0 (for another root the ranks are numbered from the root on):
//     round 0    1 <-- 3, 4     2 <-- 5        1 holds (1+3)+4, 2 holds 2+5
//     round 1    0 <-- 1, 2                    0 holds (0 + rank 1's) + rank 2's
//
// Rounds: the height of the tree, H = ceil(log_k(n(k-1)+1)) - 1. Messages: n-1 in all.
// Bytes: the buffer from each rank but the root; k times the buffer into an inner one. The executor
// cuts a long buffer into m segments that follow each other, H + m - 1 steps of one segment.
// Ranks: any n >= 1, any root, k = Shape::radix >= 1 (1 is a chain).
// Order of summation: own part, then the children's in their order (class D3); it depends on the
// root.
// Reference: docs/algorithms/k_ary_tree.md.
#include "paceline/core/collective/building/tree.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::reduce {
namespace {

bool fits(const Shape& shape) {
  return is_valid(shape) && shape.radix >= 1;
}

Program build(const Shape& shape) {
  const Tree tree =
      renumbered(k_ary_tree(shape.ranks, shape.radix), rotated_to(shape.root, shape.ranks));
  return without_empty_rounds(sum_up(tree, shape.rank));
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = k_ary_height(n, shape.radix), .messages = n - 1, .chunks = n == 1 ? 0 : 1};
}

}  // namespace

Algorithm k_ary_tree() {
  return {.operation = Operation::reduce,
          .name = "k_ary_tree",
          .purpose = "middle and long buffers in pieces, k children a rank",
          .determinism = DeterminismClass::d3,
          .fits = fits,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::reduce
