#include "paceline/core/collective/mixing/mixing_graph.h"

namespace paceline::collective::catalogue {

// Two ranks are each other's neighbour on both sides, and take the mean: the rule of thirds would
// leave a third of their difference.
MixingGraph ring() {
  return {.name = "ring",
          .summary = "two neighbours, a third of each vector",
          .terms = [](int ranks, int, int rank) -> std::vector<MixingTerm> {
            if (ranks == 1) return {};
            if (ranks == 2) return {{1 - rank, 0.5}};
            return {{(rank + ranks - 1) % ranks, 1.0 / 3}, {(rank + 1) % ranks, 1.0 / 3}};
          }};
}

}  // namespace paceline::collective::catalogue
