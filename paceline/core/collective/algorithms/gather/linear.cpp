// Linear gather: every rank sends its chunk to the root.
//
// 4 ranks, root 0, one round:
//     1 --chunk 1--> 0,  2 --chunk 2--> 0,  3 --chunk 3--> 0
//
// Rounds: 1. Messages: n-1, all to the root. Bytes: each chunk once (a lower bound).
// Ranks: any n >= 1, any root, any counts. Order of summation: nothing is summed.
// Reference: docs/algorithms/linear.md.
#include "paceline/core/collective/program/program.h"

namespace paceline::collective::catalogue::gather {
namespace {

Program build(const Shape& shape) {
  const int n = shape.ranks, own = shape.rank, root = shape.root;
  if (own != root) return {.chunks = n, .rounds = {{send(root, input(own))}}};
  Round collect;
  for (int distance = 1; distance < n; ++distance) {
    const int peer = (root + distance) % n;
    collect.push_back(recv(peer, output(peer)));
  }
  collect.push_back(copy(input(root), output(root)));
  return {.chunks = n, .rounds = {collect}};
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = n == 1 ? 0 : 1, .messages = n - 1, .chunks = n == 1 ? 0 : 1};
}

}  // namespace

Algorithm linear() {
  return {.operation = Operation::gather,
          .name = "linear",
          .purpose = "any counts: each part goes straight to the root",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::gather
