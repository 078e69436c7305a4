// Rabenseifner all_reduce: reduce_scatter by recursive halving, the nearest partner first, then the
// same exchanges backwards.
//
// 4 ranks, chunks 0..3:
//     halving     0 <--> 1   2 <--> 3     0 and 2 sum up chunks 0, 1; 1 and 3 chunks 2, 3
//     halving     0 <--> 2   1 <--> 3     chunk 0 is complete on 0, 1 on 2, 2 on 1, 3 on 3
//     doubling    0 <--> 2   1 <--> 3
//     doubling    0 <--> 1   2 <--> 3
// 6 ranks: 0 and 2 hand their buffers to 1 and 3, which do the above with 4 and 5, and get the
// result in the end.
//
// Rounds: 2 lg n; for n that is no power of two, with p the one below n, 2 lg p + 2.
// Bytes a rank: 2(n-1)/n of the buffer (a lower bound); else 2(p-1)/p and one buffer more.
// Ranks: any n >= 1.
// Order of summation: neighbours that fold, then the balanced tree over what is left (class D3). It
// is the balanced tree over the ranks where the ones of n in binary form one run.
// Reference: Thakur, Rabenseifner, Gropp, IJHPCA 2005; docs/algorithms/rabenseifner.md.
#include <bit>

#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/building/halving.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::all_reduce {
namespace {

bool has_one_run_of_ones(const Shape& shape) {
  const int number = shape.ranks;
  const int odd = number >> std::countr_zero(static_cast<unsigned>(number));
  return (odd & (odd + 1)) == 0;
}

// Reduce_scatter among all ranks but `extra` ones: of the first 2 x extra ranks, the even ones only
// hand their buffers to the next one.
Program sums(const Shape& shape) {
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(shape.ranks)));
  const int extra = shape.ranks - power, rank = shape.rank;
  const bool is_folded = rank < 2 * extra, survives = !is_folded || rank % 2 == 1;
  CompositionPart survivors{{}, {}, power};
  Program fold{.chunks = power, .rounds = {{}}};
  for (int chunk = 0; chunk < power; ++chunk) {
    survivors.ranks.push_back(chunk < extra ? 2 * chunk + 1 : chunk + extra);
    survivors.chunks.push_back({chunk});
    fold.rounds[0].push_back(survives ? recv_reduce(rank - 1, input(chunk), output(chunk), false)
                                      : send(rank + 1, input(chunk)));
  }
  if (!survives) return fold;
  const int place = is_folded ? rank / 2 : rank - extra;
  const Program halving = on(
      survivors, halving_reduce_scatter({.ranks = power, .rank = place}, Partners::nearest_first));
  return is_folded ? in_sequence({fold, reads_output(halving)}) : halving;
}

Program build(const Shape& shape) {
  const Program there = sums(shape);
  return in_sequence({there, way_back(there)});
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
  const int levels = tree_levels(power), extra = n - power;
  return {.depth = 2 * levels + (extra > 0 ? 2 : 0),
          .messages = 2L * power * levels + 2L * extra,
          .chunks = 2 * (power - 1) + (extra > 0 ? power : 0)};
}

}  // namespace

Algorithm rabenseifner() {
  return {.operation = Operation::all_reduce,
          .name = "rabenseifner",
          .purpose = "long buffers: halving, then doubling",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = has_one_run_of_ones,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_reduce
