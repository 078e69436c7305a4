// Circulant all_gather: each round doubles the chunks that a rank has; the circulant reduce_scatter
// with its messages turned round, last round first.
//
// 4 ranks. The chunks that each rank sends to the one before it, then to the rank 2 behind:
//     round    rank 0    rank 1    rank 2    rank 3
//       0      0         1         2         3
//       1      0, 1      1, 2      2, 3      3, 0
//
// Rounds: ceil(lg n), one message each. Bytes a rank: (n-1)/n of the output. Both are lower bounds,
// together and for any rank count. Ranks: any n >= 1, any counts.
// Order of summation: nothing is summed.
// Reference: Traeff, Optimal, non-pipelined reduce-scatter and allreduce algorithms (2024);
// docs/algorithms/circulant.md. For a power of two the messages are those of Bruck's algorithm.
#include "paceline/core/collective/building/circulant.h"

#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::all_gather {
namespace {

Program build(const Shape& shape) {
  const Program spread = way_back(circulant_reduce_scatter(shape));
  return with_copy(reads_input(spread), shape.rank);
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = tree_levels(n), .messages = 1L * n * tree_levels(n), .chunks = n - 1};
}

}  // namespace

Algorithm circulant() {
  return {.operation = Operation::all_gather,
          .name = "circulant",
          .purpose = "long vectors in lg n rounds, for any rank count",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_gather
