#include "paceline/core/collective/building/tree.h"

#include <algorithm>
#include <numeric>

namespace paceline::collective {
namespace {

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

Tree without_edges(int ranks) {
  return {std::vector<int>(index(ranks), -1), std::vector<std::vector<int>>(index(ranks))};
}

void join(Tree& tree, int parent, int child) {
  tree.parents[index(child)] = parent;
  tree.children[index(parent)].push_back(child);
}

int most_children(const Tree& tree) {
  std::size_t most = 0;
  for (const auto& children : tree.children) most = std::max(most, children.size());
  return static_cast<int>(most);
}

}  // namespace

int Tree::root() const {
  return static_cast<int>(std::ranges::find(parents, -1) - parents.begin());
}

int Tree::depth(int rank) const {
  int edges = 0;
  while ((rank = parents[index(rank)]) >= 0) ++edges;
  return edges;
}

int Tree::height() const {
  int greatest = 0;
  for (int rank = 0; rank < ranks(); ++rank) greatest = std::max(greatest, depth(rank));
  return greatest;
}

Tree k_ary_tree(int ranks, int radix) {
  Tree tree = without_edges(ranks);
  for (int rank = 1; rank < ranks; ++rank) join(tree, (rank - 1) / radix, rank);
  return tree;
}

int k_ary_height(int ranks, int radix) {
  int height = 0;
  for (long level = radix, all = 1; all < ranks; all += level, level *= radix) ++height;
  return height;
}

Tree in_order_tree(int ranks) {
  Tree tree = without_edges(ranks);
  for (int rank = 1; rank < ranks; ++rank) {
    const int lowest_bit = rank & -rank;
    const int above = (rank ^ lowest_bit) | (2 * lowest_bit);
    join(tree, above < ranks ? above : rank ^ lowest_bit, rank);
  }
  return tree;
}

std::array<Tree, 2> double_binary_tree(int ranks) {
  const Tree first = in_order_tree(ranks);
  std::vector<int> others(index(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    others[index(rank)] = ranks % 2 == 0 ? ranks - 1 - rank : (rank + 1) % ranks;
  return {first, renumbered(first, others)};
}

Tree renumbered(const Tree& tree, const std::vector<int>& ranks) {
  Tree other = without_edges(tree.ranks());
  for (int rank = 0; rank < tree.ranks(); ++rank) {
    for (const int child : tree.children[index(rank)])
      join(other, ranks[index(rank)], ranks[index(child)]);
  }
  return other;
}

Tree below_another(const Tree& tree) {
  Tree other = without_edges(tree.ranks() + 1);
  join(other, 0, 1 + tree.root());
  for (int rank = 0; rank < tree.ranks(); ++rank) {
    for (const int child : tree.children[index(rank)]) join(other, 1 + rank, 1 + child);
  }
  return other;
}

std::vector<int> rotated_to(int root, int ranks) {
  std::vector<int> order(index(ranks));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::rotate(order, order.begin() + root);
  return order;
}

Program sum_up(const Tree& tree, int rank, int chunk, int chunks) {
  const auto& children = tree.children[index(rank)];
  const int count = static_cast<int>(children.size());
  const bool is_root = tree.parents[index(rank)] < 0;
  Program program{.chunks = chunks, .scratch_places = is_root ? std::max(0, count - 1) : count};
  if (tree.ranks() == 1) {
    program.rounds = {{completing(copy(input(chunk), output(chunk)))}};
    return program;
  }
  // A level is the messages from all children, then a sum for each but the first.
  const int rounds_of_level = most_children(tree), level = tree.height() - tree.depth(rank);
  program.rounds.resize(index(tree.height() * rounds_of_level));
  const auto round = [&](int of_level, int nth) -> Round& {
    return program.rounds[index(of_level * rounds_of_level + nth)];
  };
  const Slot sum = is_root ? output(chunk) : scratch(count - 1, chunk);
  for (int nth = 0; nth < count; ++nth) {
    const int child = children[index(nth)];
    const Slot arrived = scratch(nth - 1, chunk);
    if (nth == 0) {
      const Step add = recv_reduce(child, input(chunk), sum, /*operand_is_left=*/true);
      round(level - 1, 0).push_back(add);
    } else {
      round(level - 1, 0).push_back(recv(child, arrived));
      round(level - 1, nth).push_back(reduce(sum, arrived, sum));
    }
  }
  if (is_root) round(level - 1, count - 1).front().completes = true;
  else round(level, 0).push_back(send(tree.parents[index(rank)], count > 0 ? sum : input(chunk)));
  return program;
}

Program spread_down(const Tree& tree, int rank, int chunk, int chunks) {
  Program program{.chunks = chunks};
  program.rounds.resize(index(tree.height()));
  const int depth = tree.depth(rank), parent = tree.parents[index(rank)];
  if (parent >= 0) program.rounds[index(depth - 1)].push_back(recv(parent, output(chunk)));
  for (const int child : tree.children[index(rank)])
    program.rounds[index(depth)].push_back(send(child, output(chunk)));
  return program;
}

}  // namespace paceline::collective
