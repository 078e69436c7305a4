#include <gtest/gtest.h>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/random_hosts.h"
#include "tests/support/seed.h"

namespace paceline::collective::broadcast_hierarchical {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::broadcast, "hierarchical");
}

TEST(HierarchicalBroadcast, IsProvenForAnyHostsAndRoots) {
  SeededNumbers numbers(test::seed(20262));
  for (int ranks = 1; ranks <= (test::kSanitized ? 12 : 48); ++ranks) {
    for (const bool in_order : {true, false}) {
      Shape shape = random_hosts(numbers, ranks, in_order);
      for (const int root : {0, ranks / 2, ranks - 1}) {
        shape.root = root;
        EXPECT_EQ(fault_of(algorithm(), shape), "") << ranks << ", " << shape.groups.size();
      }
    }
  }
}

TEST(HierarchicalBroadcast, TheBufferGoesOnceToEveryOtherHost) {
  SeededNumbers numbers(test::seed(20265));
  for (int ranks = 1; ranks <= 33; ++ranks) {
    Shape shape = random_hosts(numbers, ranks, false);
    shape.root = static_cast<int>(numbers.below(static_cast<std::uint64_t>(ranks)));
    const auto leaving = chunks_leaving(algorithm(), shape);
    EXPECT_EQ(std::accumulate(leaving.begin(), leaving.end(), 0L),
              static_cast<long>(shape.groups.size()) - 1);
    EXPECT_LE(std::ranges::max(leaving), tree_levels(static_cast<int>(shape.groups.size())));
  }
}

TEST(HierarchicalBroadcast, TakesTheRoundsOfABinomialOneOverTheHostsAndOneWithin) {
  for (int hosts = 1; hosts <= 9; ++hosts)
    EXPECT_EQ(proof_of(algorithm(), on_hosts_of(3, 3 * hosts)).depth, tree_levels(hosts) + 1);
}

}  // namespace
}  // namespace paceline::collective::broadcast_hierarchical
