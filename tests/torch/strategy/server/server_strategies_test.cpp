// Laws of every model of consistency as a strategy: one that is added is tested by them at once.
// downpour_replica_test has those of downpour.
// Covers paceline/torch/strategy/server/server_strategies.cpp.
#include "paceline/core/server/server.h"
#include "paceline/torch/strategy/strategy.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

class ServerStrategies : public testing::TestWithParam<std::string> {
 protected:
  const std::string& name() const { return GetParam(); }
  strategy::StrategyChoice choice() const { return strategy::parse_strategy(name()).value(); }
};

TEST_P(ServerStrategies, HaveTheTextsAndSettingsOfTheirConsistency) {
  const strategy::Strategy chosen = choice().strategy;
  const server::ConsistencyChoice consistency = server::parse_consistency(name()).value();
  EXPECT_EQ(chosen.summary, consistency.entry.summary);
  EXPECT_EQ(chosen.reference, consistency.entry.reference);
  EXPECT_FALSE(chosen.reference.empty());
  EXPECT_TRUE(chosen.on_servers);
  EXPECT_EQ(choice().text(), consistency.text());
}

TEST_P(ServerStrategies, SendTheModelToServersAndBackInEachStep) {
  const auto traffic = choice().strategy.traffic(choice().settings, {.elements = 10, .ranks = 4});
  ASSERT_EQ(traffic.size(), 2u) << "a push and a pull";
  for (const strategy::Traffic& one : traffic) {
    EXPECT_EQ(one.operation, Operation::send);
    EXPECT_EQ(one.peers, 1);
    EXPECT_EQ(one.elements, 10);
    EXPECT_EQ(one.every, 1);
    EXPECT_EQ(one.overlap, strategy::Traffic::Overlap::nothing);
  }
}

TEST_P(ServerStrategies, CloseStepsWithoutSomeRanksWhereTheirStepsSkipPushes) {
  const bool skips = name() == "backup_workers" || name() == "timeout";
  EXPECT_EQ(choice().strategy.closes_without_some, skips);
}

TEST_P(ServerStrategies, MoveReplicasThatAreEqualAfterFinish) {
  std::vector<at::Tensor> ends(2);
  run_ranks(2, {.servers = 1}, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    TaskNet net("linear");
    const at::Tensor begin = flat(net);
    DataParallel parallel(net, job, {.synchrony = name()});
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    for (int k = 0; k < 4; ++k) {
      optimizer.zero_grad();
      net.loss(samples(100 * job.rank() + k, 3)).backward();
      parallel.step(optimizer);
    }
    parallel.finish();
    ends[static_cast<std::size_t>(job.rank())] = flat(net);
    EXPECT_FALSE(flat(net).equal(begin));
  });
  EXPECT_TRUE(ends[0].equal(ends[1]));
}

std::vector<std::string> names_of_consistencies() {
  std::vector<std::string> names;
  for (const server::Consistency& one : server::built_in_consistencies())
    if (one.is_strategy) names.emplace_back(one.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(OfEachConsistency, ServerStrategies,
                         testing::ValuesIn(names_of_consistencies()),
                         [](const auto& one) { return one.param; });

TEST(ServerStrategyCatalogue, HasNoOtherStrategiesOnServersAndIsSortedByName) {
  const auto& all = strategy::strategies();
  std::vector<std::string> expected = names_of_consistencies(), found;
  expected.emplace_back("downpour");
  for (const strategy::Strategy& one : all)
    if (one.on_servers) found.emplace_back(one.name);
  EXPECT_THAT(found, ::testing::UnorderedElementsAreArray(expected));
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &strategy::Strategy::name));
}

}  // namespace
}  // namespace paceline
