// Double binary tree all_reduce: half of the buffer goes up and down one binary tree, the other
// half another one, whose inner ranks are leaves of the first.
//
// 4 ranks. Up the trees, a level in each round; down again the same way:
//     chunk 0    0 <-- 2 <-- 1, 3
//     chunk 1    3 <-- 1 <-- 2, 0
//
// Rounds: 2 ceil(lg n). Messages: at most 4(n-1) in all.
// Bytes: at most twice the buffer from any rank, half of it up and all of it down from an inner one
// (for 2 and 3 ranks 1 and 1.5 times the buffer). The executor cuts a long buffer into m segments
// that follow each other through the trees. Ranks: any n >= 1.
// Order of summation: own part, then the children's in the order of their tree; so it depends on
// the half (class D2).
// Reference: Sanders, Speck, Traeff, Two-tree algorithms for full bandwidth broadcast, reduction
// and scan (2009); trees as in NCCL; docs/algorithms/double_binary_tree.md.
#include <algorithm>

#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/building/tree.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::all_reduce {
namespace {

Program build(const Shape& shape) {
  std::vector<Program> halves;
  for (const Tree& tree : double_binary_tree(shape.ranks)) {
    const int half = static_cast<int>(halves.size());
    halves.push_back(
        in_sequence({sum_up(tree, shape.rank, half, 2), spread_down(tree, shape.rank, half, 2)}));
  }
  return without_empty_rounds(side_by_side(halves));
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {
      .depth = 2 * tree_levels(n), .messages = 4L * (n - 1), .chunks = n == 1 ? 0 : std::min(n, 4)};
}

}  // namespace

Algorithm double_binary_tree() {
  return {.operation = Operation::all_reduce,
          .name = "double_binary_tree",
          .purpose = "long buffers on many ranks: two trees share the links",
          .determinism = DeterminismClass::d2,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_reduce
