#include <gtest/gtest.h>

#include "tests/core/collective/random_hosts.h"
#include "tests/support/seed.h"

namespace paceline::collective::all_reduce_hierarchical {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "hierarchical");
}

TEST(HierarchicalAllReduce, IsProvenForAnyHosts) {
  SeededNumbers numbers(test::seed(20260));
  for (int ranks = 1; ranks <= (test::kSanitized ? 12 : 64); ++ranks) {
    for (int i = 0; i < 3; ++i) {
      const Shape shape = random_hosts(numbers, ranks, i % 2 == 0);
      const Proof proof = proof_of(algorithm(), shape);
      EXPECT_EQ(proof.balanced_tree, algorithm().has_balanced_tree(shape))
          << ranks << " ranks, " << shape.groups.size() << " hosts: " << proof.tree;
    }
    for (int size = 1; size <= ranks && ranks <= 16; ++size)
      EXPECT_EQ(fault_of(algorithm(), on_hosts_of(size, ranks)), "") << "hosts of " << size;
  }
}

TEST(HierarchicalAllReduce, EveryHostSendsTheLeastThatCanDo) {
  SeededNumbers numbers(test::seed(20261));
  for (int i = 0; i < 60; ++i) {
    const int ranks = 1 + static_cast<int>(numbers.below(40));
    for (const Shape& shape : {random_hosts(numbers, ranks, false), on_hosts_of(1, ranks),
                               on_hosts_of(2, ranks), on_hosts_of(4, ranks)}) {
      const long hosts = static_cast<long>(shape.groups.size());
      const long chunks = algorithm().build(shape).chunks;
      ASSERT_EQ(chunks % hosts, 0);
      for (const long sent : chunks_leaving(algorithm(), shape))
        EXPECT_EQ(sent, 2 * (hosts - 1) * chunks / hosts);
    }
  }
}

TEST(HierarchicalAllReduce, OnOneHostOrWithOneRankOnEachIsDirect) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    const auto direct = programs_of(built_in(Operation::all_reduce, "direct"), ranks);
    EXPECT_EQ(programs_of(algorithm(), ranks), direct);
    EXPECT_EQ(programs_of(algorithm(), on_hosts_of(ranks, ranks)), direct);
    EXPECT_EQ(programs_of(algorithm(), on_hosts_of(1, ranks)), direct);
  }
}

TEST(HierarchicalAllReduce, HostsAndTheirRanksMayStandInAnyOrder) {
  const Shape one{.ranks = 5, .groups = {{3, 0}, {1}, {4, 2}}};
  const Shape other{.ranks = 5, .groups = {{2, 4}, {0, 3}, {1}}};
  EXPECT_EQ(programs_of(algorithm(), one), programs_of(algorithm(), other));
}

TEST(HierarchicalAllReduce, SumsByTheBalancedTreeOnHostsOfAsManyNeighboursAPowerOfTwo) {
  EXPECT_EQ(proof_of(algorithm(), on_hosts_of(2, 5)).tree, "(((0+1)+(2+3))+4)");
  EXPECT_EQ(proof_of(algorithm(), on_hosts_of(3, 6)).tree, "(((0+1)+2)+((3+4)+5))");
  for (int ranks = 1; ranks <= 33; ++ranks) {
    for (const int size : {1, 2, 4, 8, 16})
      EXPECT_TRUE(proof_of(algorithm(), on_hosts_of(size, ranks)).balanced_tree);
  }
  EXPECT_FALSE(proof_of(algorithm(), {.ranks = 4, .groups = {{0, 2}, {1, 3}}}).balanced_tree);
}

}  // namespace
}  // namespace paceline::collective::all_reduce_hierarchical
