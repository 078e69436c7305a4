// Bruck's all_to_all: what is meant for rank r+d travels along the bits of d, so that lg n messages
// do for n-1.
//
// 4 ranks, the chunks that rank 0 sends. Chunk ab is what rank a has for rank b:
//     distance 1    0 -- 01 03 --> 1      0 takes 30 and 32 from 3, and keeps 30
//     distance 2    0 -- 02 32 --> 2      0 takes 20 and 10 from 2, and keeps both
// All others do the same, turned round.
//
// Rounds: ceil(lg n), one message each way. Bytes a rank: each chunk once for every bit of its
// distance, so lg n / 2 times its input for a power of two. For short buffers.
// Ranks: any n >= 1, but equal counts alone: who passes a chunk on knows no length but its own.
// Order of summation: nothing is summed.
// Reference: Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 1997; docs/algorithms/bruck.md.
#include <bit>

#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/contract.h"

namespace paceline::collective::catalogue::all_to_all {
namespace {

// A chunk that goes `distance` ranks ahead, as it lies on `rank` when it has gone the distances
// below `next`.
Slot stop(int ranks, int rank, int distance, int next) {
  const int gone = distance % next, from = (rank + ranks - gone) % ranks;
  const int chunk = chunk_between(ranks, from, (from + distance) % ranks);
  if (gone == 0) return input(chunk);
  if (gone == distance) return output(chunk);
  // One leaves in the round in which the next one comes, for which there is a second place.
  const bool is_second = std::popcount(static_cast<unsigned>(gone)) % 2 == 0;
  return scratch(is_second ? ranks + distance : distance, chunk);
}

Program build(const Shape& shape) {
  const int n = shape.ranks, own = shape.rank;
  Program program{.chunks = n * n, .scratch_places = 2 * n, .rounds = {{}}};
  const int kept = chunk_between(n, own, own);
  program.rounds[0].push_back(copy(input(kept), output(kept)));
  for (int hop = 1; hop < n; hop *= 2) {
    if (hop > 1) program.rounds.emplace_back();
    Round& round = program.rounds.back();
    for (int distance = hop; distance < n; ++distance) {
      if ((distance & hop) == 0) continue;
      round.push_back(send((own + hop) % n, stop(n, own, distance, hop)));
      round.push_back(recv((own + n - hop) % n, stop(n, own, distance, 2 * hop)));
    }
  }
  return program;
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  Counters counters{.depth = tree_levels(n), .messages = 1L * n * tree_levels(n)};
  for (int distance = 1; distance < n; ++distance)
    counters.chunks += std::popcount(static_cast<unsigned>(distance));
  return counters;
}

}  // namespace

Algorithm bruck() {
  return {.operation = Operation::all_to_all,
          .name = "bruck",
          .purpose = "short buffers, equal counts: lg n messages a rank",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .needs_equal_counts = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_to_all
