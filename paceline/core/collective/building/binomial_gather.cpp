#include "paceline/core/collective/building/binomial_gather.h"

#include <algorithm>

#include "paceline/core/collective/building/balanced_tree.h"

namespace paceline::collective {

Program binomial_gather(const Shape& shape) {
  const int n = shape.ranks, root = shape.root;
  const int own = (shape.rank - root + n) % n;  // from the root on, as all numbers here
  const auto rank_at = [&](int from_root) { return (root + from_root) % n; };
  Program program{.chunks = n};
  for (int distance = 1; distance < n; distance *= 2) {
    Round& round = program.rounds.emplace_back();
    if (own % (2 * distance) != 0) {
      for (int i = own; i < std::min(own + distance, n); ++i) {
        const int chunk = rank_at(i);
        round.push_back(send(rank_at(own - distance), i == own ? input(chunk) : output(chunk)));
      }
      break;
    }
    for (int i = own + distance; i < std::min(own + 2 * distance, n); ++i)
      round.push_back(recv(rank_at(own + distance), output(rank_at(i))));
    if (round.empty()) program.rounds.pop_back();
  }
  if (own != 0) return program;
  if (n == 1) program.rounds.emplace_back();
  program.rounds.back().push_back(copy(input(root), output(root)));
  return program;
}

int largest_subtree(int ranks) {
  const int farthest = (1 << tree_levels(ranks)) / 2;  // the root's child; all others are whole
  return ranks == 1 ? 0 : std::max(ranks - farthest, farthest / 2);
}

}  // namespace paceline::collective
