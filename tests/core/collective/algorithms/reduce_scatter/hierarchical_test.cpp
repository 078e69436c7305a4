#include <gtest/gtest.h>

#include "tests/core/collective/random_hosts.h"
#include "tests/support/seed.h"

namespace paceline::collective::reduce_scatter_hierarchical {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce_scatter, "hierarchical");
}

TEST(HierarchicalReduceScatter, IsProvenForAnyHosts) {
  SeededNumbers numbers(test::seed(20262));
  for (int ranks = 1; ranks <= (test::kSanitized ? 12 : 48); ++ranks) {
    for (const bool in_order : {true, false}) {
      const Shape shape = random_hosts(numbers, ranks, in_order);
      const Proof proof = proof_of(algorithm(), shape);
      EXPECT_EQ(proof.balanced_tree, algorithm().has_balanced_tree(shape)) << proof.tree;
    }
  }
}

TEST(HierarchicalReduceScatter, AHostSendsEachChunkOfTheOthersOnce) {
  SeededNumbers numbers(test::seed(20264));
  for (int ranks = 1; ranks <= 33; ++ranks) {
    const Shape shape = random_hosts(numbers, ranks, false);
    const Hosts hosts = hosts_of(shape);
    const auto leaving = chunks_leaving(algorithm(), shape);
    for (std::size_t host = 0; host < hosts.size(); ++host)
      EXPECT_EQ(leaving[host], ranks - static_cast<long>(hosts[host].size()));
  }
}

TEST(HierarchicalReduceScatter, TakesTwoRoundsAndOnOneHostIsDirect) {
  EXPECT_EQ(proof_of(algorithm(), on_hosts_of(4, 16)).depth, 2);
  EXPECT_EQ(programs_of(algorithm(), 7),
            programs_of(built_in(Operation::reduce_scatter, "direct"), 7));
}

TEST(HierarchicalReduceScatter, ItsWayBackSendsWhatTheAllGatherDoes) {
  const Shape shape{.ranks = 7, .groups = {{0, 4}, {1, 2, 6}, {3}, {5}}};
  const auto there = chunks_leaving(algorithm(), shape);
  const auto back = chunks_leaving(built_in(Operation::all_gather, "hierarchical"), shape);
  EXPECT_EQ(std::accumulate(there.begin(), there.end(), 0L),
            std::accumulate(back.begin(), back.end(), 0L));
}

}  // namespace
}  // namespace paceline::collective::reduce_scatter_hierarchical
