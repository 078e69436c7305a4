// Binomial broadcast: in each round every rank that has the buffer sends it to one that has not.
//
// 4 ranks, root 0 (for another root the ranks are numbered from the root on):
//     round 0    0 --------> 2
//     round 1    0 --> 1     2 --> 3
//
// Rounds: ceil(lg n) on the root. Messages: n-1 in all.
// Bytes: ceil(lg n) times the buffer from the root, and no rank sends more.
// Ranks: any n >= 1, any root. Order of summation: nothing is summed.
// Reference: Thakur, Rabenseifner, Gropp, IJHPCA 2005; docs/algorithms/binomial.md.
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/program.h"

namespace paceline::collective::catalogue::broadcast {
namespace {

Program build(const Shape& shape) {
  const int n = shape.ranks;
  const int from_root = (shape.rank - shape.root + n) % n;
  const bool is_root = from_root == 0;
  const auto rank_at = [&](int distance_from_root) {
    return (shape.root + distance_from_root) % n;
  };

  Program program{.chunks = 1};
  for (int distance = (1 << tree_levels(n)) / 2; distance >= 1; distance /= 2) {
    if (from_root % (2 * distance) == distance) {
      program.rounds.push_back({recv(rank_at(from_root - distance), output(0))});
    } else if (from_root % (2 * distance) == 0 && from_root + distance < n) {
      const Slot source = is_root ? input(0) : output(0);
      program.rounds.push_back({send(rank_at(from_root + distance), source)});
    }
  }
  // The root's own output can wait until the others are served.
  if (n == 1) program.rounds.emplace_back();
  if (is_root) program.rounds.back().push_back(copy(input(0), output(0)));
  return program;
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = tree_levels(n), .messages = n - 1, .chunks = tree_levels(n)};
}

}  // namespace

Algorithm binomial() {
  return {.operation = Operation::broadcast,
          .name = "binomial",
          .purpose = "short buffers: who has it passes it on",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::broadcast
