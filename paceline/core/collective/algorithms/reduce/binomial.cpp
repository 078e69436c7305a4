// Binomial reduce: blocks of ranks merge by twos; the block with the root keeps its sum there.
//
// 4 ranks, root 2, the whole buffer in each message:
//     distance 1     0 <-- 1     2 <-- 3        0 holds 0+1, 2 holds 2+3
//     distance 2     0 --------> 2              2 holds (0+1)+(2+3)
//
// Rounds: ceil(lg n) on the root. Messages: n-1 in all, one from every other rank.
// Bytes: the buffer from each rank but the root. For short buffers.
// Ranks: any n >= 1, any root. Order of summation: the balanced tree in rank order (class D3).
// Reference: Thakur, Rabenseifner, Gropp, IJHPCA 2005; docs/algorithms/binomial.md. In the paper
// the ranks are numbered from the root on, so that the sum depends on the root; here it does not.
#include <algorithm>

#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/program.h"

namespace paceline::collective::catalogue::reduce {
namespace {

Program build(const Shape& shape) {
  const int n = shape.ranks, root = shape.root;
  const bool is_root = shape.rank == root;
  Program program{.chunks = 1, .scratch_places = is_root ? 0 : 1};
  // The rank that holds the sum of the ranks from `first` up to `end`.
  const auto holder = [&](int first, int end) {
    return first <= root && root < end ? root : first;
  };
  const Slot target = is_root ? output(0) : scratch(0, 0);
  Slot sum = input(0);
  for (int distance = 1; distance < n; distance *= 2) {
    const int first = shape.rank / (2 * distance) * (2 * distance), middle = first + distance;
    const int end = std::min(n, middle + distance);
    if (middle >= n) continue;  // an odd block out waits
    const int left = holder(first, middle), right = holder(middle, end);
    const int keeps = holder(first, end), gives = keeps == left ? right : left;
    if (shape.rank == gives) {
      program.rounds.push_back({send(keeps, sum)});
      break;
    }
    program.rounds.push_back({recv_reduce(gives, sum, target, /*operand_is_left=*/keeps == left)});
    sum = target;
  }
  if (n == 1) program.rounds = {{copy(input(0), output(0))}};
  if (is_root) program.rounds.back()[0].completes = true;
  return program;
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = tree_levels(n), .messages = n - 1, .chunks = n == 1 ? 0 : 1};
}

}  // namespace

Algorithm binomial() {
  return {.operation = Operation::reduce,
          .name = "binomial",
          .purpose = "short buffers: blocks of ranks merge by twos",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::reduce
