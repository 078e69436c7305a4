// k-ary tree all_reduce: sum up a tree in which every rank has k children, then send the result
// down the same edges.
//
// 6 ranks, k = 2, the whole buffer in each message:
//     up      1 <-- 3, 4     2 <-- 5        1 holds (1+3)+4, 2 holds 2+5
//     up      0 <-- 1, 2                    0 holds (0 + rank 1's) + rank 2's
//     down    0 --> 1, 2
//     down    1 --> 3, 4     2 --> 5
//
// Rounds: twice the height of the tree, H = ceil(log_k(n(k-1)+1)) - 1. Messages: 2(n-1) in all.
// Bytes: k+1 times the buffer from an inner rank, and no rank sends more. The executor cuts a long
// buffer into m segments that follow each other through the tree, 2H + m - 1 steps of one segment.
// Ranks: any n >= 1, k = Shape::radix >= 1 (1 is a chain).
// Order of summation: own part, then the children's in rank order (class D3).
// Reference: docs/algorithms/k_ary_tree.md.
#include <algorithm>

#include "paceline/core/collective/building/tree.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::all_reduce {
namespace {

bool fits(const Shape& shape) {
  return is_valid(shape) && shape.radix >= 1;
}

Program build(const Shape& shape) {
  const Tree tree = k_ary_tree(shape.ranks, shape.radix);
  return without_empty_rounds(
      in_sequence({sum_up(tree, shape.rank), spread_down(tree, shape.rank)}));
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  // Up and down from rank 1, the first inner one; or down from the root alone.
  const int first = std::min(shape.radix, n - 1);
  const int second = std::min(shape.radix, n - 1 - first);
  return {.depth = 2 * k_ary_height(n, shape.radix),
          .messages = 2 * (n - 1),
          .chunks = std::max(first, second > 0 ? second + 1 : 0)};
}

}  // namespace

Algorithm k_ary_tree() {
  return {.operation = Operation::all_reduce,
          .name = "k_ary_tree",
          .purpose = "middle and long buffers in pieces, k children a rank",
          .determinism = DeterminismClass::d3,
          .fits = fits,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_reduce
