#include "paceline/core/collective/building/balanced_tree.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <string>

namespace paceline::collective {
namespace {

std::string plus(const std::string& left, const std::string& right) {
  return fmt::format("({}+{})", left, right);
}

// The rule itself: split at the largest power of two below the count.
std::string by_the_rule(int begin, int end) {
  if (end - begin == 1) return std::to_string(begin);
  const int half = static_cast<int>(std::bit_floor(static_cast<unsigned>(end - begin - 1)));
  return plus(by_the_rule(begin, begin + half), by_the_rule(begin + half, end));
}

TEST(BalancedTree, SumsAsTheRuleSaysForEveryCountUpTo64) {
  std::vector<std::string> leaves;
  for (int count = 1; count <= 64; ++count) {
    leaves.push_back(std::to_string(count - 1));
    EXPECT_EQ(balanced_sum(leaves, plus), by_the_rule(0, count));
  }
}

TEST(BalancedTree, HasCeilLogTwoLevels) {
  EXPECT_EQ(tree_levels(1), 0);
  EXPECT_EQ(tree_levels(2), 1);
  EXPECT_EQ(tree_levels(3), 2);
  EXPECT_EQ(tree_levels(4), 2);
  EXPECT_EQ(tree_levels(5), 3);
  EXPECT_EQ(tree_levels(64), 6);
  EXPECT_EQ(tree_levels(65), 7);
}

// Carries the rounds out on texts; the leaf of rank `reader` is an input, all others lie in
// scratch.
std::string carried_out(int count, int reader) {
  std::vector<Slot> leaves;
  std::map<Slot, std::string> memory;
  for (int rank = 0; rank < count; ++rank) {
    leaves.push_back(rank == reader ? input(0) : scratch(rank, 0));
    memory[leaves.back()] = std::to_string(rank);
  }
  for (const Round& round : balanced_reduction(leaves, output(0))) {
    const auto before = memory;
    for (const Step& step : round) {
      const std::string left = before.at(step.source);
      memory[step.target] =
          step.kind == Step::Kind::copy ? left : plus(left, before.at(step.operand));
    }
  }
  EXPECT_EQ(memory[input(0)], std::to_string(reader)) << "the input is only read";
  return memory[output(0)];
}

TEST(BalancedTree, ReductionMakesTheSameTreeWhereverTheInputIs) {
  for (int count = 1; count <= 33; ++count) {
    for (int reader = 0; reader < count; ++reader) {
      EXPECT_EQ(carried_out(count, reader), by_the_rule(0, count))
          << count << " leaves, input " << reader;
    }
  }
}

TEST(BalancedTree, ReductionTakesARoundForEachLevelAndCompletesInTheLast) {
  for (int count = 2; count <= 33; ++count) {
    std::vector<Slot> leaves;
    for (int rank = 0; rank < count; ++rank) leaves.push_back(scratch(rank, 0));
    const std::vector<Round> rounds = balanced_reduction(leaves, output(0));
    EXPECT_EQ(static_cast<int>(rounds.size()), tree_levels(count));
    std::size_t steps = 0, completing_steps = 0;
    for (const Round& round : rounds) {
      for (const Step& step : round) {
        ++steps;
        completing_steps += step.completes ? 1u : 0u;
      }
    }
    EXPECT_EQ(steps, static_cast<std::size_t>(count - 1));
    EXPECT_EQ(completing_steps, 1u);
    EXPECT_TRUE(rounds.back().back().completes);
  }
}

TEST(BalancedTree, OneLeafIsCopied) {
  EXPECT_EQ(balanced_reduction({input(0)}, output(0)),
            (std::vector<Round>{{completing(copy(input(0), output(0)))}}));
}

}  // namespace
}  // namespace paceline::collective
