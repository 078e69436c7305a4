// Reduce_scatter and gather as a reduce: every rank gets the sum of its own chunk, and the root
// gathers them.
//
// 4 ranks, root 0, as rank 1 sees it:
//     rounds 0, 1    circulant reduce_scatter: 1 holds the sum of chunk 1
//     round 2        0 <--chunk 1-- 1     2 <--chunk 3-- 3
//     round 3        0 <--chunks 2, 3-- 2
//
// Rounds: 2 ceil(lg n). Bytes: at most 1.5 times the buffer from any rank, 2(n-1)/n of it into the
// root. For long buffers. `direct` takes fewer rounds, but n messages in each.
// Ranks: any n >= 1, any root.
// Order of summation: that of the circulant reduce_scatter (class D2).
// Reference: Thakur, Rabenseifner, Gropp, IJHPCA 2005; docs/algorithms/reduce_scatter_gather.md.
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/building/binomial_gather.h"
#include "paceline/core/collective/building/circulant.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::reduce {
namespace {

Program build(const Shape& shape) {
  const Program program =
      in_sequence({circulant_reduce_scatter(shape), reads_output(binomial_gather(shape))});
  return shape.rank == shape.root ? program : others_in_scratch(program, -1);
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = 2 * tree_levels(n),
          .messages = 1L * n * tree_levels(n) + n - 1,
          .chunks = n - 1 + largest_subtree(n)};
}

}  // namespace

Algorithm reduce_scatter_gather() {
  return {.operation = Operation::reduce,
          .name = "reduce_scatter_gather",
          .purpose = "long buffers over a network: every rank sums a part",
          .determinism = DeterminismClass::d2,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::reduce
