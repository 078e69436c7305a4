// Scatter and all_gather as a broadcast: the root deals out the buffer, then every chunk travels
// once round the ring.
//
// 4 ranks, root 0 (for another root the ranks are numbered from the root on):
//     round 0     0 --chunks 2, 3--> 2
//     round 1     0 --chunk 1--> 1     2 --chunk 3--> 3
//     2..4        chunk r goes from rank r round the ring, as far as the root, which has it
//
// Rounds: ceil(lg n) + n-1. Bytes: 2(n-1)/n of the buffer from the root, where `binomial` sends
// ceil(lg n) times the buffer. For long buffers.
// Ranks: any n >= 1, any root. Order of summation: nothing is summed.
// Reference: Barnett, Shuler, van de Geijn et al., Interprocessor collective communication library
// (1994); docs/algorithms/scatter_all_gather.md.
#include "paceline/core/collective/algorithms/algorithm_entries.h"
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/building/binomial_gather.h"
#include "paceline/core/collective/program/cells.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::broadcast {
namespace {

// The ring ends at the root, which has everything.
Program round_the_ring(const Shape& shape) {
  const bool is_root = shape.rank == shape.root;
  const bool sends_to_root = (shape.rank + 1) % shape.ranks == shape.root;
  Program ring = reads_output(all_gather::ring().build(shape));
  for (Round& round : ring.rounds) {
    std::erase_if(round, [&](const Step& step) {
      return (is_root && is_recv(step)) || (sends_to_root && is_send(step));
    });
  }
  return without_empty_rounds(ring);
}

Program build(const Shape& shape) {
  const Program deal = way_back(binomial_gather(shape));
  Program program = in_sequence({deal, round_the_ring(shape)});
  if (shape.rank != shape.root) return program;
  program = reads_input(program);
  for (int chunk = 0; chunk < shape.ranks; ++chunk) program = with_copy(program, chunk);
  return program;
}

Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  return {.depth = n == 1 ? 0 : tree_levels(n) + n - 1,
          .messages = 1L * n * (n - 1),
          .chunks = 2 * (n - 1)};
}

}  // namespace

Algorithm scatter_all_gather() {
  return {.operation = Operation::broadcast,
          .name = "scatter_all_gather",
          .purpose = "long buffers: dealt out, then round the ring",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::broadcast
