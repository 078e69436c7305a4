// Recursive doubling all_gather: neighbouring blocks of ranks exchange what they have, so that the
// ranks of both have the chunks of the two; then blocks of twice the length do.
//
// 4 ranks, chunks 0..3:
//     distance 1    0 <--> 1    2 <--> 3     ranks 0, 1 have chunks 0, 1; ranks 2, 3 chunks 2, 3
//     distance 2    0 <--> 2    1 <--> 3     all have all
//
// Rounds: lg n, one message each way, always of chunks side by side. Bytes a rank: (n-1)/n of the
// output (lower bounds, together). Ranks: powers of two, any counts.
// Order of summation: nothing is summed.
// Reference: Thakur, Rabenseifner, Gropp, IJHPCA 2005; docs/algorithms/recursive_doubling.md.
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/building/halving.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::all_gather {
namespace {

Program build(const Shape& shape) {
  const Program spread = way_back(halving_reduce_scatter(shape, Partners::farthest_first));
  return with_copy(reads_input(spread), shape.rank);
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = tree_levels(n), .messages = 1L * n * tree_levels(n), .chunks = n - 1};
}

}  // namespace

Algorithm recursive_doubling() {
  return {.operation = Operation::all_gather,
          .name = "recursive_doubling",
          .purpose = "powers of two: lg n rounds of blocks side by side",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_power_of_two,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_gather
