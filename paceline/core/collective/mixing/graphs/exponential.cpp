#include <bit>

#include "paceline/core/collective/mixing/mixing_graph.h"

namespace paceline::collective::catalogue {

// Hops of 1, 2, 4, ... below the number of ranks; each rank hears of those before it.
MixingGraph exponential() {
  return {.name = "exponential",
          .summary = "neighbours at distances 1, 2, 4, ..., equal weights",
          .is_symmetric = false,
          .terms = [](int ranks, int, int rank) {
            const int hops = std::bit_width(static_cast<unsigned>(ranks - 1));
            std::vector<MixingTerm> terms;
            for (int k = 0; k < hops; ++k)
              terms.push_back({(rank + ranks - (1 << k)) % ranks, 1.0 / (hops + 1)});
            return terms;
          }};
}

}  // namespace paceline::collective::catalogue
