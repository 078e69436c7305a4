#include <gtest/gtest.h>

#include "tests/core/collective/random_hosts.h"
#include "tests/support/seed.h"

namespace paceline::collective::all_gather_hierarchical {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_gather, "hierarchical");
}

TEST(HierarchicalAllGather, IsProvenForAnyHosts) {
  SeededNumbers numbers(test::seed(20262));
  for (int ranks = 1; ranks <= (test::kSanitized ? 12 : 48); ++ranks) {
    for (const bool in_order : {true, false}) {
      const Shape shape = random_hosts(numbers, ranks, in_order);
      EXPECT_EQ(fault_of(algorithm(), shape), "") << ranks << ", " << shape.groups.size();
    }
  }
}

TEST(HierarchicalAllGather, EveryChunkGoesOnceToEveryOtherHost) {
  SeededNumbers numbers(test::seed(20263));
  for (int ranks = 1; ranks <= 33; ++ranks) {
    const Shape shape = random_hosts(numbers, ranks, false);
    const Hosts hosts = hosts_of(shape);
    const auto leaving = chunks_leaving(algorithm(), shape);
    for (std::size_t host = 0; host < hosts.size(); ++host)
      EXPECT_EQ(leaving[host], static_cast<long>((hosts.size() - 1) * hosts[host].size()));
  }
}

TEST(HierarchicalAllGather, TakesTwoRounds) {
  EXPECT_EQ(proof_of(algorithm(), on_hosts_of(4, 16)).depth, 2);
  EXPECT_EQ(proof_of(algorithm(), on_hosts_of(5, 13)).depth, 2);
}

}  // namespace
}  // namespace paceline::collective::all_gather_hierarchical
