// Trees of ranks, and the reduction and the broadcast that follow from one.
#pragma once

#include <array>
#include <vector>

#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

struct Tree {
  std::vector<int> parents;                // by rank; -1 for the root
  std::vector<std::vector<int>> children;  // by rank, in the order in which they are summed

  int ranks() const { return static_cast<int>(parents.size()); }
  int root() const;
  int depth(int rank) const;  // edges up to the root
  int height() const;         // the greatest depth
  bool operator==(const Tree&) const = default;
};

// Rank 0 is the root, those after it are the next level, and so on: the children of r are k r + 1
// up to k r + k. REQUIRES: ranks >= 1, radix >= 1.
Tree k_ary_tree(int ranks, int radix);

// Its height: ceil(log_k(ranks (k-1) + 1)) - 1, for a chain ranks - 1.
int k_ary_height(int ranks, int radix);

// In order: the odd ranks are leaves, and a subtree holds neighbours. Rank 0 is the root and has
// one child, the largest power of two below the count; ceil(lg ranks) levels below it. 6 ranks:
//     0 -- 4 -- 2 -- 1
//          |    `--- 3
//          `--- 5
// REQUIRES: ranks >= 1.
Tree in_order_tree(int ranks);

// Two trees whose ranks share the work: who has children in the one has none in the other (rank 0
// of an odd count excepted). The second one is the first one mirrored, for an odd count shifted by
// one rank. NCCL's construction. REQUIRES: ranks >= 1.
std::array<Tree, 2> double_binary_tree(int ranks);

// The same tree, in which ranks[i] stands where i stood.
Tree renumbered(const Tree& tree, const std::vector<int>& ranks);

// The same tree below one rank more: that is rank 0, and rank i becomes i + 1.
Tree below_another(const Tree& tree);

// root, root + 1, .. mod ranks: a tree with root 0, renumbered by this, has the root `root`.
std::vector<int> rotated_to(int root, int ranks);

// Sums chunk `chunk` of `chunks` up the tree into the root's output: the own part first, then the
// children's in their order. Others keep partial sums in scratch. A level of the tree is as many
// rounds on every rank, empty where a rank has nothing to do there, so that several trees may stand
// side by side.
Program sum_up(const Tree& tree, int rank, int chunk = 0, int chunks = 1);

// The chunk goes down the tree from the root's output to everybody's. A level is one round.
Program spread_down(const Tree& tree, int rank, int chunk = 0, int chunks = 1);

}  // namespace paceline::collective
