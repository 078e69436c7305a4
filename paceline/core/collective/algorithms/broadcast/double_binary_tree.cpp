// Double binary tree broadcast: the root feeds half of the buffer to one binary tree of all other
// ranks, the other half to another one, whose inner ranks are leaves of the first.
//
// 5 ranks, root 0 (for another root the ranks are numbered from the root on):
//     chunk 0    0 --> 1 --> 3 --> 2, 4
//     chunk 1    0 --> 4 --> 2 --> 3, 1
//
// Rounds: 1 + ceil(lg(n-1)). Messages: 2(n-1) in all. Bytes: at most the whole buffer from any
// rank. The executor cuts a long buffer into m segments that follow each other through the trees.
// Ranks: any n >= 1, any root. Order of summation: nothing is summed.
// Reference: Sanders, Speck, Traeff, Two-tree algorithms for full bandwidth broadcast, reduction
// and scan (2009); trees as in NCCL; docs/algorithms/double_binary_tree.md.
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/building/tree.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::broadcast {
namespace {

// The half of the buffer that goes down `tree`.
Program half_of(const Shape& shape, const Tree& tree, int half) {
  const Tree fed = renumbered(below_another(tree), rotated_to(shape.root, shape.ranks));
  return spread_down(fed, shape.rank, half, 2);
}

Program build(const Shape& shape) {
  if (shape.ranks == 1) return with_copy(with_copy({.chunks = 2}, 0), 1);
  const auto trees = double_binary_tree(shape.ranks - 1);
  const Program down = without_empty_rounds(
      side_by_side({half_of(shape, trees[0], 0), half_of(shape, trees[1], 1)}));
  return shape.rank == shape.root ? with_copy(with_copy(reads_input(down), 0), 1) : down;
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  if (n == 1) return {};
  // Two ranks: both halves in one message.
  return {.depth = 1 + tree_levels(n - 1), .messages = n == 2 ? 1 : 2L * (n - 1), .chunks = 2};
}

}  // namespace

Algorithm double_binary_tree() {
  return {.operation = Operation::broadcast,
          .name = "double_binary_tree",
          .purpose = "long buffers on many ranks: two trees share the links",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::broadcast
