// Circulant all_reduce: the circulant reduce_scatter, then its messages turned round.
//
// 4 ranks, as rank 0 sees it; the others do the same with the chunks and ranks after theirs:
//     round 0   0 --chunks 2, 3--> 2     0 <--chunks 0, 1-- 2
//     round 1   0 --chunk 1--> 1         0 <--chunk 0-- 3         chunk 0 is complete on 0
//     round 2   0 --chunk 0--> 3         0 <--chunk 1-- 1
//     round 3   0 --chunks 0, 1--> 2     0 <--chunks 2, 3-- 2
//
// Rounds: 2 ceil(lg n), one message each. Bytes a rank: 2(n-1)/n of the buffer (a lower bound). So
// few of both for any rank count, powers of two or not. For buffers of middle length and longer.
// Ranks: any n >= 1.
// Order of summation: own part first, then what each round brings: for 4 ranks and chunk 0
// (0+2) + (3+1). Class D2, and not the balanced tree.
// Reference: Traeff, Optimal, non-pipelined reduce-scatter and allreduce algorithms (2024);
// docs/algorithms/circulant.md.
#include "paceline/core/collective/building/circulant.h"

#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::all_reduce {
namespace {

Program build(const Shape& shape) {
  const Program sums = circulant_reduce_scatter(shape);
  return in_sequence({sums, way_back(sums)});
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = 2 * tree_levels(n), .messages = 2L * n * tree_levels(n), .chunks = 2 * (n - 1)};
}

}  // namespace

Algorithm circulant() {
  return {.operation = Operation::all_reduce,
          .name = "circulant",
          .purpose = "long buffers in 2 lg n rounds, for any rank count",
          .determinism = DeterminismClass::d2,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_reduce
