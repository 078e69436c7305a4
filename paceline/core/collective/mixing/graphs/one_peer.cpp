#include <algorithm>
#include <bit>

#include "paceline/core/collective/mixing/mixing_graph.h"

namespace paceline::collective::catalogue {
namespace {

int hops_of(int ranks) {
  return std::max(1, static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1))));
}

}  // namespace

MixingGraph one_peer() {
  return {.name = "one_peer",
          .summary = "one neighbour a round, at distance 1, 2, 4, ... in turn, half of each vector",
          .is_symmetric = false,
          .rounds = hops_of,
          .terms = [](int ranks, int round, int rank) -> std::vector<MixingTerm> {
            if (ranks == 1) return {};
            const int hop = 1 << (round % hops_of(ranks));
            return {{(rank + ranks - hop) % ranks, 0.5}};
          }};
}

}  // namespace paceline::collective::catalogue
