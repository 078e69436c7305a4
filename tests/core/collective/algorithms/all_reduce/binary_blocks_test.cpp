#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_reduce_binary_blocks {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "binary_blocks");
}

std::vector<int> block_sizes(int ranks) {
  std::vector<int> sizes;
  for (int size = 64; size >= 1; size /= 2) {
    if ((ranks & size) != 0) sizes.push_back(size);
  }
  return sizes;
}

TEST(BinaryBlocksAllReduce, SendsWhatTheBlocksSayAndHidesTheSmallOnes) {
  for (int ranks = 1; ranks <= kProofRanks; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    const std::vector<int> sizes = block_sizes(ranks);
    const int widest = sizes[0];
    EXPECT_EQ(proof.depth, 2 * tree_levels(widest) + (sizes.size() > 1 ? 2 : 0));
    long messages = 0;
    std::vector<long> sent;
    for (std::size_t j = 0; j < sizes.size(); ++j) {
      const bool has_larger = j > 0, has_smaller = j + 1 < sizes.size();
      const int size = sizes[j], share = widest / size;
      sent.insert(sent.end(), static_cast<std::size_t>(size),
                  2 * share * (size - 1) + share * (has_larger + has_smaller));
      messages +=
          size * (2 * tree_levels(size) + (has_larger ? sizes[j - 1] / size : 0) + has_smaller);
    }
    EXPECT_EQ(proof.sent_chunks, sent);
    EXPECT_EQ(proof.messages, messages);
  }
}

TEST(BinaryBlocksAllReduce, SumsByTheBalancedTreeInRankOrderForAnyCount) {
  EXPECT_EQ(proof_of(algorithm(), 13).tree, "((((0+1)+(2+3))+((4+5)+(6+7)))+(((8+9)+(10+11))+12))");
  for (int ranks = 1; ranks <= kProofRanks; ++ranks)
    EXPECT_TRUE(proof_of(algorithm(), ranks).balanced_tree) << ranks;
  for (int ranks = 1; ranks <= 20; ++ranks) {
    const std::string tree = proof_of(algorithm(), ranks).tree;
    EXPECT_EQ(tree, proof_of(built_in(Operation::all_reduce, "direct"), ranks).tree);
    EXPECT_EQ(tree, proof_of(built_in(Operation::all_reduce, "binomial"), ranks).tree);
  }
}

}  // namespace
}  // namespace paceline::collective::all_reduce_binary_blocks
