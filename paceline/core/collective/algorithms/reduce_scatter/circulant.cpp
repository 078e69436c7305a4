// Circulant reduce_scatter: each round halves the chunks that a rank still has to do with.
//
// 4 ranks, chunks 0..3. What each rank sends to the rank 2 ahead, then to the next one:
//     round    rank 0            rank 1            rank 2            rank 3
//       0      chunks 2, 3: 0    chunks 3, 0: 1    chunks 0, 1: 2    chunks 1, 2: 3
//       1      chunk 1: 0+2      chunk 2: 1+3      chunk 3: 2+0      chunk 0: 3+1
//      end     owns chunk 0      owns chunk 1      owns chunk 2      owns chunk 3
//
// Rounds: ceil(lg n), one message each. Bytes a rank: (n-1)/n of the input. Both are lower bounds,
// together and for any rank count. Ranks: any n >= 1, any counts.
// Order of summation: own part first, then what each round brings: for 4 ranks and chunk 0
// (0+2) + (3+1). Class D2, and not the balanced tree.
// Reference: Traeff, Optimal, non-pipelined reduce-scatter and allreduce algorithms (2024);
// docs/algorithms/circulant.md.
#include "paceline/core/collective/building/circulant.h"

#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::reduce_scatter {
namespace {

Program build(const Shape& shape) {
  return others_in_scratch(circulant_reduce_scatter(shape), shape.rank);
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = tree_levels(n), .messages = 1L * n * tree_levels(n), .chunks = n - 1};
}

}  // namespace

Algorithm circulant() {
  return {.operation = Operation::reduce_scatter,
          .name = "circulant",
          .purpose = "long vectors in lg n rounds, for any rank count",
          .determinism = DeterminismClass::d2,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::reduce_scatter
