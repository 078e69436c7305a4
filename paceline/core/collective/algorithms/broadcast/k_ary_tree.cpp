// k-ary tree broadcast: the buffer goes down a tree in which every rank has k children.
//
// 6 ranks, k = 2, root 0 (for another root the ranks are numbered from the root on):
//     round 0    0 --> 1, 2
//     round 1    1 --> 3, 4     2 --> 5
//
// Rounds: the height of the tree, H = ceil(log_k(n(k-1)+1)) - 1. Messages: n-1 in all.
// Bytes: k times the buffer from an inner rank, and no rank sends more. The executor cuts a long
// buffer into m segments that follow each other through the tree, H + m - 1 steps of one segment.
// Ranks: any n >= 1, any root, k = Shape::radix >= 1 (1 is a chain).
// Order of summation: nothing is summed.
// Reference: docs/algorithms/k_ary_tree.md.
#include <algorithm>

#include "paceline/core/collective/building/tree.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::broadcast {
namespace {

bool fits(const Shape& shape) {
  return is_valid(shape) && shape.radix >= 1;
}

Program build(const Shape& shape) {
  const Tree tree =
      renumbered(k_ary_tree(shape.ranks, shape.radix), rotated_to(shape.root, shape.ranks));
  const Program down = without_empty_rounds(spread_down(tree, shape.rank));
  return shape.rank == shape.root ? with_copy(reads_input(down), 0) : down;
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = k_ary_height(n, shape.radix),
          .messages = n - 1,
          .chunks = std::min(shape.radix, n - 1)};
}

}  // namespace

Algorithm k_ary_tree() {
  return {.operation = Operation::broadcast,
          .name = "k_ary_tree",
          .purpose = "middle and long buffers in pieces, k children a rank",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = fits,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::broadcast
