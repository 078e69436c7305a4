#include "paceline/core/collective/building/tree.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/collective/building/balanced_tree.h"

namespace paceline::collective {
namespace {

// Every rank below the root once, and the two lists agree.
void expect_spans_all(const Tree& tree) {
  int edges = 0;
  for (int rank = 0; rank < tree.ranks(); ++rank) {
    for (const int child : tree.children[static_cast<std::size_t>(rank)]) {
      EXPECT_EQ(tree.parents[static_cast<std::size_t>(child)], rank);
      ++edges;
    }
    EXPECT_LT(tree.depth(rank), tree.ranks());
  }
  EXPECT_EQ(edges, tree.ranks() - 1);
  EXPECT_EQ(std::ranges::count(tree.parents, -1), 1);
  EXPECT_EQ(tree.parents[static_cast<std::size_t>(tree.root())], -1);
}

TEST(Tree, KAryHasKChildrenAndTheLeastHeight) {
  EXPECT_EQ(k_ary_tree(6, 2), (Tree{{-1, 0, 0, 1, 1, 2}, {{1, 2}, {3, 4}, {5}, {}, {}, {}}}));
  for (int radix = 1; radix <= 8; ++radix) {
    for (int ranks = 1; ranks <= 70; ++ranks) {
      const Tree tree = k_ary_tree(ranks, radix);
      expect_spans_all(tree);
      EXPECT_EQ(tree.root(), 0);
      int height = 0;
      for (int held = 1, level = 1; held < ranks; ++height) held += level *= radix;
      EXPECT_EQ(tree.height(), height);
      for (const auto& children : tree.children)
        EXPECT_LE(children.size(), static_cast<std::size_t>(radix));
    }
  }
}

TEST(Tree, InOrderHasSubtreesOfNeighbours) {
  EXPECT_EQ(in_order_tree(6), (Tree{{-1, 2, 4, 2, 0, 4}, {{4}, {}, {1, 3}, {}, {2, 5}, {}}}));
}

TEST(Tree, OfTwoBinaryOnesEachRankIsALeafOfOne) {
  for (int ranks = 1; ranks <= 299; ++ranks) {
    const auto trees = double_binary_tree(ranks);
    for (const Tree& tree : trees) {
      expect_spans_all(tree);
      EXPECT_EQ(tree.height(), tree_levels(ranks)) << ranks;
    }
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
      const auto first = trees[0].children[rank].size(), second = trees[1].children[rank].size();
      EXPECT_LE(first + second, 2U);
      const bool is_shared = ranks % 2 == 1 && rank == 0;
      EXPECT_TRUE(first == 0 || second == 0 || is_shared) << ranks;
    }
  }
}

TEST(Tree, RenumberedHasTheSameEdgesOfOtherRanks) {
  const Tree tree = renumbered(k_ary_tree(5, 2), rotated_to(3, 5));
  EXPECT_EQ(tree.root(), 3);
  EXPECT_EQ(tree, (Tree{{3, 4, 4, -1, 3}, {{}, {}, {}, {4, 0}, {1, 2}}}));
}

TEST(Tree, BelowAnotherIsOneLevelHigher) {
  const Tree tree = below_another(renumbered(k_ary_tree(3, 2), {1, 0, 2}));
  EXPECT_EQ(tree, (Tree{{-1, 2, 0, 2}, {{2}, {}, {1, 3}, {}}}));
  EXPECT_EQ(below_another(k_ary_tree(1, 2)), (Tree{{-1, 0}, {{1}, {}}}));
}

TEST(Tree, AllRanksTakeTheSameRounds) {
  for (int ranks = 2; ranks <= 20; ++ranks) {
    const Tree tree = in_order_tree(ranks);
    const auto up = sum_up(tree, 0).rounds.size(), down = spread_down(tree, 0).rounds.size();
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(sum_up(tree, rank).rounds.size(), up);
      EXPECT_EQ(spread_down(tree, rank).rounds.size(), down);
    }
  }
}

}  // namespace
}  // namespace paceline::collective
