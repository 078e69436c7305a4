// Elastic averaging by a centre on the job's servers (docs/strategies/elastic.md).
#include "paceline/torch/strategy/server/elastic_centre.h"

#include "paceline/torch/strategy/strategy.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

// The definition for one rank, of whose exchanges none overtakes another. Returns the centre.
at::Tensor centre_of_one(const SharedTask& task, SerialWorld& world, int period, double alpha) {
  at::Tensor centre = world.x(0);
  int since = 0;
  for (int k = 0; k < task.steps; ++k) {
    const bool exchanges = since >= period;
    const at::Tensor difference = alpha * (world.x(0) - centre);
    world.local_step(k);
    if (exchanges) {
      world.set_x(0, world.x(0) - difference);
      centre = centre + difference;
      since = 0;
    }
    ++since;
  }
  return centre;
}

TEST(ElasticCentre, OfOneRankIsTheSerialProgram) {
  for (const int period : {1, 3}) {
    const SharedTask task{
        .ranks = 1, .optimizer = SharedTask::momentum_sgd(0.05, 0.9, true), .servers = 2};
    SerialWorld world(task);
    const at::Tensor centre = centre_of_one(task, world, period, 0.4);
    const std::string text = c10::str("elastic:centre=server,alpha=0.4,period=", period);
    expect_equals_serial(train_on_ranks(task, text), world, centre);
  }
}

TEST(ElasticCentre, OfAlphaZeroIsNoneToTheBit) {
  const SharedTask task{.ranks = 3, .servers = 1};
  const Trained elastic = train_on_ranks(task, "elastic:centre=server,period=2,alpha=0"),
                none = train_on_ranks(task, "none");
  for (std::size_t r = 0; r < 3; ++r) EXPECT_TRUE(elastic.replicas[r].equal(none.replicas[r]));
}

TEST(ElasticCentre, OfSeveralRanksIsOneConsensusAndTellsItsExchanges) {
  const SharedTask task{.ranks = 3, .servers = 2};
  const Trained trained = train_on_ranks(task, "elastic:centre=server,period=1");
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_TRUE(trained.consensus[r].equal(trained.consensus[0]));
    EXPECT_FALSE(trained.replicas[r].equal(trained.consensus[r]));
    const StepReport& report = trained.reports[r];
    EXPECT_EQ(report.exchange.exchanges, task.steps - 1);
    std::int64_t updates = 0;
    for (const auto& [staleness, count] : report.servers.staleness) updates += count;
    EXPECT_EQ(updates, report.exchange.exchanges);
  }
}

TEST(ElasticCentre, NeedsServersByName) {
  EXPECT_FALSE(strategy::parse_strategy("elastic").value().on_servers());
  EXPECT_TRUE(strategy::parse_strategy("elastic:centre=server").value().on_servers());
  run_ranks(2, [&](Job& job) {
    TaskNet net("linear");
    EXPECT_THAT(
        misuse_of([&] { DataParallel parallel(net, job, {.synchrony = "elastic:centre=server"}); }),
        AllOf(HasSubstr("elastic"), HasSubstr("this job has none"), HasSubstr("--servers")));
  });
}

}  // namespace
}  // namespace paceline
