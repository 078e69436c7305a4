#include "paceline/core/collective/mixing/mixing_graph.h"

namespace paceline::collective::catalogue {

MixingGraph complete() {
  return {.name = "complete",
          .summary = "every rank mixes with every other: the mean in one round",
          .terms = [](int ranks, int, int rank) {
            std::vector<MixingTerm> terms;
            for (int peer = 0; peer < ranks; ++peer)
              if (peer != rank) terms.push_back({peer, 1.0 / ranks});
            return terms;
          }};
}

}  // namespace paceline::collective::catalogue
