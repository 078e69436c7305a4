// Linear scatter: the root sends every rank its chunk.
//
// 4 ranks, root 0, one round:
//     0 --chunk 1--> 1,  0 --chunk 2--> 2,  0 --chunk 3--> 3
//
// Rounds: 1. Messages: n-1, all from the root. Bytes: each chunk once (a lower bound).
// Ranks: any n >= 1, any root, any counts. Order of summation: nothing is summed.
// Reference: docs/algorithms/linear.md.
#include "paceline/core/collective/program/program.h"

namespace paceline::collective::catalogue::scatter {
namespace {

Program build(const Shape& shape) {
  const int n = shape.ranks, own = shape.rank, root = shape.root;
  if (own != root) return {.chunks = n, .rounds = {{recv(root, output(own))}}};
  Round spread;
  for (int distance = 1; distance < n; ++distance) {
    const int peer = (root + distance) % n;
    spread.push_back(send(peer, input(peer)));
  }
  spread.push_back(copy(input(root), output(root)));
  return {.chunks = n, .rounds = {spread}};
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = n == 1 ? 0 : 1, .messages = n - 1, .chunks = n - 1};
}

}  // namespace

Algorithm linear() {
  return {.operation = Operation::scatter,
          .name = "linear",
          .purpose = "any counts: each part comes straight from the root",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::scatter
