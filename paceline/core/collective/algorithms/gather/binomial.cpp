// Binomial gather: in each round half of the ranks that have chunks hand all of them on.
//
// 4 ranks, root 0 (for another root the ranks are numbered from the root on):
//     distance 1    0 <--chunk 1-- 1     2 <--chunk 3-- 3
//     distance 2    0 <--chunks 2, 3-- 2
//
// Rounds: ceil(lg n). Messages: n-1 in all, one from every rank but the root.
// Bytes: (n-1)/n of the output into the root (a lower bound); other chunks travel up to lg n times.
// For short chunks. Ranks: any n >= 1, any root, any counts.
// Order of summation: nothing is summed.
// Reference: Thakur, Rabenseifner, Gropp, IJHPCA 2005; docs/algorithms/binomial.md.
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/building/binomial_gather.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::gather {
namespace {

Program build(const Shape& shape) {
  const Program program = binomial_gather(shape);
  return shape.rank == shape.root ? program : others_in_scratch(program, -1);
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = tree_levels(n), .messages = n - 1, .chunks = largest_subtree(n)};
}

}  // namespace

Algorithm binomial() {
  return {.operation = Operation::gather,
          .name = "binomial",
          .purpose = "short chunks: a subtree's go in one message",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::gather
