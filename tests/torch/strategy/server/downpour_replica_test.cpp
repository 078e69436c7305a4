// Downpour SGD on real ranks, in fp64 (docs/server/downpour.md).
#include "paceline/torch/strategy/server/downpour_replica.h"

#include <utility>

#include "paceline/torch/strategy/strategy.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

// Batches of different sizes count alike for one rank, under this as under every synchrony.
SharedTask plain_sgd(int ranks, int steps) {
  return {
      .ranks = ranks, .steps = steps, .optimizer = SharedTask::momentum_sgd(0.1, 0), .servers = 2};
}

TEST(Downpour, OfOneRankThatPushesAndFetchesInEachStepHasTheBitsOfAspByEveryRule) {
  using Make = decltype(SharedTask::optimizer);
  const Make adagrad = [](std::vector<at::Tensor> parameters) {
    return std::make_unique<torch::optim::Adagrad>(std::move(parameters), 0.05);
  };
  for (const Make& optimizer : {SharedTask::momentum_sgd(0.1, 0.9), adagrad}) {
    const SharedTask task{.ranks = 1, .steps = 20, .optimizer = optimizer, .servers = 2};
    const at::Tensor asp = train_on_ranks(task, "asp").replicas[0];
    EXPECT_TRUE(
        train_on_ranks(task, "downpour:push=1,fetch=1,fetching=blocking").replicas[0].equal(asp));
  }
}

TEST(Downpour, OfOneRankIsSgdIfItStepsBetweenItsFetchesAndOnlyThen) {
  SharedTask task = plain_sgd(1, 30);
  const std::string text = "downpour:push=5,fetch=5,fetching=blocking";
  const at::Tensor found = train_on_ranks(task, text).replicas[0],
                   without = train_on_ranks(task, text + ",local_rate=0").replicas[0];
  task.servers = 0;
  const at::Tensor sgd = train_on_ranks(task, "synchronous").replicas[0];
  EXPECT_LE(difference(found, sgd), 1e-13);
  EXPECT_GE(difference(without, sgd), 1e-3);
}

TEST(Downpour, FetchesBehindTheStepUnlessItIsToldToWait) {
  const SharedTask task = plain_sgd(1, 12);
  SerialWorld world(task);
  at::Tensor before = world.x(0), now = before;
  for (int k = 0; k < task.steps; ++k) {
    world.set_x(0, before);
    world.make_gradient(0, k);
    before = std::exchange(now, now - 0.1 * flat_gradient(*world.nets[0]));
  }
  const Trained trained = train_on_ranks(task, "downpour:push=1,fetch=1");
  EXPECT_LE(difference(trained.consensus[0], now), 1e-13);
  EXPECT_LE(difference(trained.replicas[0], before), 1e-13) << "of the step before";
}

TEST(Downpour, TellsItsPushesAndHowFarItWasFromWhatItFetched) {
  const SharedTask task = plain_sgd(3, 12);
  for (const std::string fetching : {"asynchronous", "blocking"}) {
    const Trained trained =
        train_on_ranks(task, "downpour:push=4,fetch=3,warm_start=0,fetching=" + fetching);
    for (const StepReport& report : trained.reports) {
      EXPECT_EQ(report.exchange.exchanges, 3);
      EXPECT_EQ(report.exchange.period, 4);
      EXPECT_EQ(report.exchange.bytes, 3 * 8 * static_cast<double>(trained.replicas[0].numel()));
      EXPECT_GT(report.exchange.distance, 0);
      EXPECT_EQ(report.servers.dropped, 0);
      std::int64_t updates = 0;
      for (const auto& [staleness, count] : report.servers.staleness) updates += count;
      EXPECT_EQ(updates, report.servers.used);
      EXPECT_GE(report.servers.used, 2) << "those before the last fetch";
    }
  }
}

// The ranks of a job, each of which makes `steps` under a warm start.
struct WarmRun {
  std::vector<at::Tensor> after_first_step, ends;
  std::vector<StepReport> reports;
};
WarmRun warm_run(const std::string& synchrony, int ranks, int steps) {
  const auto count = static_cast<std::size_t>(ranks);
  WarmRun run{std::vector<at::Tensor>(count), std::vector<at::Tensor>(count),
              std::vector<StepReport>(count)};
  run_ranks(ranks, {.servers = 1}, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    const auto rank = static_cast<std::size_t>(job.rank());
    TaskNet net("mlp");
    DataParallel parallel(net, job, {.synchrony = synchrony});
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    for (int k = 0; k < steps; ++k) {
      net.zero_grad();
      net.loss(samples(100 * job.rank() + k, 4)).backward();
      EXPECT_TRUE(parallel.step(optimizer));
      if (k == 0) run.after_first_step[rank] = flat(net);
    }
    parallel.finish();
    run.reports[rank] = parallel.last_step();
    run.ends[rank] = flat(net);
  });
  for (const at::Tensor& one : run.ends) EXPECT_TRUE(one.equal(run.ends[0])) << synchrony;
  return run;
}

TEST(Downpour, BeginsWithRankZeroAloneAndTheOthersGoOnFromThere) {
  for (const std::string fetching : {"asynchronous", "blocking"}) {
    const std::string text = "downpour:push=3,fetch=2,fetching=" + fetching + ",warm_start=";
    const at::Tensor warm = warm_run(text + "7", 1, 7).ends[0];
    const WarmRun run = warm_run(text + "7", 3, 12);
    for (const std::size_t other : {1u, 2u}) {
      EXPECT_LE(difference(run.after_first_step[other], warm), 1e-13);
      EXPECT_EQ(run.reports[other].servers.dropped, 1) << "the gradient before the warm start";
    }
    EXPECT_EQ(run.reports[0].servers.dropped, 0);
    EXPECT_FALSE(run.ends[0].equal(warm));
  }
}

// Rank 0 finishes while the others wait for it.
TEST(Downpour, EndsAWarmStartThatIsLongerThanTheTraining) {
  const std::string text = "downpour:push=3,fetch=3,fetching=blocking,warm_start=100";
  const at::Tensor warm = warm_run(text, 1, 5).ends[0];
  const WarmRun run = warm_run(text, 2, 5);
  EXPECT_LE(difference(run.after_first_step[1], warm), 1e-13);
  EXPECT_FALSE(run.ends[0].equal(warm)) << "rank 1 makes its other steps";
}

TEST(Downpour, SendsTheModelInEachSoManySteps) {
  const strategy::StrategyChoice choice = strategy::parse_strategy("downpour:push=4").value();
  EXPECT_TRUE(choice.on_servers());
  const auto traffic = choice.strategy.traffic(choice.settings, {.elements = 10, .ranks = 4});
  ASSERT_EQ(traffic.size(), 2u) << "pushes and fetches";
  EXPECT_EQ(traffic[0].every, 4);
  EXPECT_EQ(traffic[0].overlap, strategy::Traffic::Overlap::nothing);
  EXPECT_EQ(traffic[1].every, 5);
  EXPECT_EQ(traffic[1].overlap, strategy::Traffic::Overlap::backward);
  for (const strategy::Traffic& one : traffic) {
    EXPECT_EQ(one.operation, Operation::send);
    EXPECT_EQ(one.elements, 10);
  }
}

}  // namespace
}  // namespace paceline
