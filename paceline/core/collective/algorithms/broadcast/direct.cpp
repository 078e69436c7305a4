// Direct broadcast: the root sends its buffer to every other rank.
//
// 4 ranks, root 0, one round:
//     0 --> 1,  0 --> 2,  0 --> 3
//
// Rounds: 1. Messages: n-1, all from the root. Bytes: n-1 times the buffer from the root.
// Ranks: any n >= 1, any root. Order of summation: nothing is summed.
// The second half of `star` (docs/algorithms/direct.md).
//
// Over shared memory all ranks read the root's buffer side by side.
#include "paceline/core/collective/program/program.h"

namespace paceline::collective::catalogue::broadcast {
namespace {

Program build(const Shape& shape) {
  const int n = shape.ranks, root = shape.root;
  if (shape.rank != root) return {.chunks = 1, .rounds = {{recv(root, output(0))}}};
  Round spread;
  for (int distance = 1; distance < n; ++distance) {
    spread.push_back(send((root + distance) % n, input(0)));
  }
  spread.push_back(copy(input(0), output(0)));
  return {.chunks = 1, .rounds = {spread}};
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = n == 1 ? 0 : 1, .messages = n - 1, .chunks = n - 1};
}

}  // namespace

Algorithm direct() {
  return {.operation = Operation::broadcast,
          .name = "direct",
          .purpose = "one host: all ranks read the root side by side",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::broadcast
