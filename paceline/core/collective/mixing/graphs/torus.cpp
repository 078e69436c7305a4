#include <fmt/format.h>

#include <map>

#include "paceline/core/collective/mixing/mixing_graph.h"

namespace paceline::collective::catalogue {
namespace {

// The number of rows, the largest divisor that is not above the square root; 1: a prime number.
int torus_rows(int ranks) {
  int rows = 1;
  for (int d = 1; d * d <= ranks; ++d)
    if (ranks % d == 0) rows = d;
  return rows;
}

}  // namespace

// On two rows both vertical neighbours are the same rank, which then weighs two fifths.
MixingGraph torus() {
  return {
      .name = "torus",
      .summary = "four neighbours on a grid that is closed at its edges, a fifth of each vector",
      .check = [](int ranks) -> Result<> {
        if (ranks == 1 || torus_rows(ranks) > 1) return Done{};
        return Failure{Fault::misuse,
                       fmt::format("the mixing graph torus needs ranks that fill a grid, as 4, "
                                   "6 or 9 do, and there are {}: take ring or exponential",
                                   ranks),
                       {}};
      },
      .terms =
          [](int ranks, int, int rank) {
            const int rows = torus_rows(ranks), columns = ranks / rows;
            const int row = rank / columns, column = rank % columns;
            std::map<int, double> weights;
            for (const auto& [down, right] : {std::pair(1, 0), {-1, 0}, {0, 1}, {0, -1}}) {
              const int peer =
                  (row + down + rows) % rows * columns + (column + right + columns) % columns;
              if (peer != rank) weights[peer] += 0.2;
            }
            std::vector<MixingTerm> terms;
            for (const auto& [peer, weight] : weights) terms.push_back({peer, weight});
            return terms;
          }};
}

}  // namespace paceline::collective::catalogue
