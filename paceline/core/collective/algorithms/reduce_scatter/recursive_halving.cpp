// Recursive halving reduce_scatter: a rank and its partner share the chunks they both still have,
// the farthest partner first.
//
// 4 ranks, chunks 0..3, by twos:
//     distance 2    0 <--> 2    1 <--> 3     ranks 0, 1 go on with chunks 0, 1; 2, 3 with 2, 3
//     distance 1    0 <--> 1    2 <--> 3     each is left with its own chunk
//
// Rounds: lg n, one message each way. Bytes a rank: (n-1)/n of the input (lower bounds, together).
// Ranks: powers of two, any counts. Order of summation: the same tree for every chunk (class D3),
// for 4 ranks (0+2) + (1+3): not the balanced tree, which the nearest partner first would give, but
// then another rank would end with the chunk.
// Reference: Thakur, Rabenseifner, Gropp, IJHPCA 2005; docs/algorithms/recursive_halving.md.
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/building/halving.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::reduce_scatter {
namespace {

Program build(const Shape& shape) {
  return others_in_scratch(halving_reduce_scatter(shape, Partners::farthest_first), shape.rank);
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = tree_levels(n), .messages = 1L * n * tree_levels(n), .chunks = n - 1};
}

}  // namespace

Algorithm recursive_halving() {
  return {.operation = Operation::reduce_scatter,
          .name = "recursive_halving",
          .purpose = "powers of two: lg n rounds with the least bytes",
          .determinism = DeterminismClass::d3,
          .fits = is_power_of_two,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::reduce_scatter
