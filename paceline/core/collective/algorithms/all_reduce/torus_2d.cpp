// All_reduce on a torus of two dimensions: rings along the rows, then along the columns.
//
// 3 x 2 ranks, 6 chunks:
//     rows       0 - 1 - 2 - 0         reduce_scatter: each rank has a third of its row's sum
//                3 - 4 - 5 - 3
//     columns    0 - 3, 1 - 4, 2 - 5   all_reduce of that third, as reduce_scatter and all_gather
//     rows                             all_gather
//
// With n = a b ranks: 2((a-1) + (b-1)) rounds, a neighbour each; `ring` takes 2(n-1).
// Bytes a rank: 2(n-1)/n of the buffer (a lower bound). Ranks: any n >= 1 in two dimensions, those
// of the shape, else the most square ones.
// Order of summation: along the rings, so it depends on the chunk (class D2).
// Reference: Mikami et al., ImageNet/ResNet-50 training in 224 seconds, 2018;
// docs/algorithms/torus_2d.md.
#include "paceline/core/collective/algorithms/algorithm_entries.h"
#include "paceline/core/collective/building/grid.h"

namespace paceline::collective::catalogue::all_reduce {
namespace {

std::vector<int> most_square(int ranks) {
  int width = 1;
  for (int i = 2; i * i <= ranks; ++i) {
    if (ranks % i == 0) width = i;
  }
  return {width, ranks / width};
}

bool fits(const Shape& shape) {
  return is_valid(shape) && (shape.dimensions.empty() || shape.dimensions.size() == 2);
}

std::vector<int> dimensions_of(const Shape& shape) {
  return shape.dimensions.empty() ? most_square(shape.ranks) : shape.dimensions;
}

Program build(const Shape& shape) {
  return all_reduce_on_grid(dimensions_of(shape), shape.rank, reduce_scatter::ring(),
                            all_gather::ring());
}

Counters closed_form(const Shape& shape) {
  return counters_on_grid(dimensions_of(shape), reduce_scatter::ring(), all_gather::ring());
}

}  // namespace

Algorithm torus_2d() {
  return {.operation = Operation::all_reduce,
          .name = "torus_2d",
          .purpose = "a torus of ranks: rings along rows, then columns",
          .determinism = DeterminismClass::d2,
          .fits = fits,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_reduce
