// Dissemination barrier: each round doubles the ranks that a rank knows to be here. Chunk r is rank
// r's word that it has come; it has no bytes.
//
// 5 ranks. Of which ranks rank 0 knows after each round, and from whom:
//     round 0   from rank 4:  4 0
//     round 1   from rank 3:  2 3 4 0
//     round 2   from rank 1:  all
//
// Rounds: ceil(lg n), one message each: a lower bound. Ranks: any n >= 1.
// Order of summation: nothing is summed.
// Reference: Hensgen, Finkel, Manber, Two algorithms for barrier synchronization (1988);
// docs/algorithms/dissemination.md.
#include <algorithm>

#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::barrier {
namespace {

Program build(const Shape& shape) {
  const int n = shape.ranks, own = shape.rank;
  Program program{.chunks = n};
  for (int distance = 1; distance < n; distance *= 2) {
    Round& round = program.rounds.emplace_back();
    const int ahead = (own + distance) % n, behind = (own + n - distance) % n;
    const int words = std::min(distance, n - distance);  // those that the other does not have yet
    for (int i = 0; i < words; ++i) {
      const int chunk = (own + n - i) % n;
      round.push_back(send(ahead, chunk == own ? input(chunk) : output(chunk)));
    }
    for (int i = 0; i < words; ++i) round.push_back(recv(behind, output((behind + n - i) % n)));
  }
  return with_copy(program, own);
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = tree_levels(n), .messages = 1L * n * tree_levels(n), .chunks = n - 1};
}

}  // namespace

Algorithm dissemination() {
  return {.operation = Operation::barrier,
          .name = "dissemination",
          .purpose = "lg n rounds of one empty message",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::barrier
