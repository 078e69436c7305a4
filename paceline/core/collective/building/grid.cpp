#include "paceline/core/collective/building/grid.h"

#include <functional>
#include <numeric>

#include "paceline/core/collective/program/composition.h"

namespace paceline::collective {

Program all_reduce_on_grid(std::vector<int> dimensions, int rank, const Algorithm& reduce_scatter,
                           const Algorithm& all_gather) {
  std::erase(dimensions, 1);
  if (dimensions.empty()) dimensions = {1};
  const int ranks =
      std::accumulate(dimensions.begin(), dimensions.end(), 1, std::multiplies<int>());
  std::vector<Program> phases, back;
  int stride = 1;                     // from a rank to its neighbour along the dimension
  int first_chunk = 0, held = ranks;  // what the rank's line shares out
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    const int size = dimensions[d], place = rank / stride % size, share = held / size;
    CompositionPart line{.of_chunks = ranks};
    for (int member = 0; member < size; ++member) {
      line.ranks.push_back(rank + (member - place) * stride);
      auto& chunks = line.chunks.emplace_back(static_cast<std::size_t>(share));
      std::iota(chunks.begin(), chunks.end(), first_chunk + member * share);
    }
    const Shape shape{.ranks = size, .rank = place};
    Program down = on(line, reduce_scatter.build(shape));
    Program up = reads_output(on(line, all_gather.build(shape)));
    if (d > 0) {
      // The other ranks of the line have summed up there what this rank would store into.
      down = reads_output(down);
      up = without_stores(up);
    }
    phases.push_back(d + 1 < dimensions.size() ? partial(down) : down);
    back.push_back(up);
    stride *= size;
    first_chunk += place * share;
    held = share;
  }
  phases.insert(phases.end(), back.rbegin(), back.rend());
  return in_sequence(phases);
}

Counters counters_on_grid(const std::vector<int>& dimensions, const Algorithm& reduce_scatter,
                          const Algorithm& all_gather) {
  const int ranks =
      std::accumulate(dimensions.begin(), dimensions.end(), 1, std::multiplies<int>());
  Counters all;
  int held = ranks;  // chunks that a line shares out
  for (const int size : dimensions) {
    held /= size;
    for (const Algorithm* along : {&reduce_scatter, &all_gather}) {
      const Counters of_line = along->closed_form({.ranks = size});
      all.depth += of_line.depth;
      all.messages += ranks / size * of_line.messages;
      all.chunks += held * of_line.chunks;
    }
  }
  return all;
}

}  // namespace paceline::collective
