// Neighbours of rings, for the tests of gossip.
#pragma once

#include <vector>

namespace paceline::coordination::testing {

// The list is by rank. Two ranks are neighbours once.
inline std::vector<std::vector<int>> ring(int ranks) {
  std::vector<std::vector<int>> neighbours;
  for (int rank = 0; rank < ranks; ++rank) {
    const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    neighbours.push_back(left == right ? std::vector{left} : std::vector{left, right});
  }
  return neighbours;
}

}  // namespace paceline::coordination::testing
