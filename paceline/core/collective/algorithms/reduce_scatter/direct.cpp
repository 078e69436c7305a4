// Direct reduce_scatter: each rank takes its chunk from every other rank and sums them up.
//
// 4 ranks, as rank 1 sees it; the others do the same with their own chunk:
//     round 0   0 --chunk 1--> 1 <--chunk 1-- 2, 3    (1 sends chunks 0, 2, 3 to their owners)
//     round 1   a = x0 + x1,  b = x2 + x3
//     round 2   output(1) = a + b
//
// Rounds: 1 with messages, ceil(lg n) of sums. Messages a rank: n-1.
// Bytes a rank: (n-1)/n of the input (a lower bound). Ranks: any n >= 1, any counts.
// Order of summation: the balanced tree in rank order, for every chunk (class D3).
// Reference: Thakur, Rabenseifner, Gropp, IJHPCA 2005 (pairwise exchange);
// docs/algorithms/direct.md.
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/program.h"

namespace paceline::collective::catalogue::reduce_scatter {
namespace {

Program build(const Shape& shape) {
  return sum_of_own_chunk(shape, output(shape.rank));
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = n == 1 ? 0 : 1, .messages = 1L * n * (n - 1), .chunks = n - 1};
}

}  // namespace

Algorithm direct() {
  return {.operation = Operation::reduce_scatter,
          .name = "direct",
          .purpose = "one host; one round with the least bytes",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::reduce_scatter
