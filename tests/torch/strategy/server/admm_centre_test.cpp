// Consensus ADMM by a consensus on the job's servers (docs/strategies/admm.md).
// Also covers paceline/torch/strategy/local/consensus_penalty.cpp.
#include "paceline/torch/strategy/server/admm_centre.h"

#include "paceline/torch/strategy/strategy.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

// The sum of two numbers has the same bits in every order, and so has that of one.
TEST(AdmmCentre, WithABarrierOfAllRanksHasTheBitsOfAdmmInLockstep) {
  for (const int ranks : {1, 2}) {
    for (const std::string pace : {"barrier=2", "barrier=9,delay=100", "barrier=1,delay=1"}) {
      const SharedTask task{
          .ranks = ranks, .batch = SharedTask::even_batches, .tells_weights = false, .servers = 2};
      const Trained lockstep = train_on_ranks(task, "admm:period=3,penalty=0.2"),
                    servers =
                        train_on_ranks(task, "admm:centre=server,period=3,penalty=0.2," + pace);
      for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
        EXPECT_TRUE(servers.replicas[r].equal(lockstep.replicas[r])) << ranks << " ranks, " << pace;
        EXPECT_TRUE(servers.consensus[r].equal(lockstep.consensus[r])) << ranks << ", " << pace;
        EXPECT_EQ(servers.reports[r].exchange.exchanges, task.steps / 3);
      }
    }
  }
}

// The consensus may be asked for at any time, and changes nothing for those who go on.
TEST(AdmmCentre, WithABarrierOfAllRanksGoesOnBehindAConsensusAsInLockstep) {
  const SharedTask task{
      .ranks = 2, .batch = SharedTask::even_batches, .tells_weights = false, .servers = 1};
  const auto look = [](DataParallel& parallel, torch::optim::Optimizer&, int step) {
    if (step == 7) const auto shared = parallel.consensus();
  };
  const Trained lockstep = train_on_ranks(task, "admm:period=3"),
                servers = train_on_ranks(task, "admm:centre=server,period=3,barrier=2", look);
  for (std::size_t r = 0; r < 2; ++r) EXPECT_TRUE(servers.replicas[r].equal(lockstep.replicas[r]));
}

TEST(AdmmCentre, OfSeveralRanksIsOneConsensusAndTellsItsExchanges) {
  for (const int delay : {1, 3}) {
    const SharedTask task{.ranks = 3, .servers = 2};
    const Trained trained =
        train_on_ranks(task, c10::str("admm:centre=server,period=1,barrier=1,delay=", delay));
    for (std::size_t r = 0; r < 3; ++r) {
      EXPECT_TRUE(trained.consensus[r].equal(trained.consensus[0]));
      EXPECT_FALSE(trained.replicas[r].equal(trained.consensus[r]));
      const StepReport& report = trained.reports[r];
      EXPECT_EQ(report.exchange.exchanges, task.steps);
      std::int64_t updates = 0;
      for (const auto& [staleness, count] : report.servers.staleness) {
        EXPECT_LT(staleness, delay);
        updates += count;
      }
      EXPECT_EQ(updates, report.exchange.exchanges);
    }
  }
}

// A model that is trained by some steps.
struct Trainee {
  Trainee(Job& job, const std::string& synchrony)
      : parallel(*net, job, {.synchrony = synchrony}),
        optimizer(task.optimizer(net->parameters())) {}

  void step(int rank, int k) {
    net->zero_grad();
    net->loss(*task.batch(rank, k)).backward();
    parallel.step(*optimizer);
  }
  void write() {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& one : net->parameters()) one.mul_(0.5);
  }

  SharedTask task{.ranks = 3, .batch = SharedTask::even_batches};
  std::shared_ptr<TaskNet> net = std::make_shared<TaskNet>("linear");
  DataParallel parallel;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

// A model that is written after the consensus was told is not what the servers hold.
TEST(AdmmCentre, AndElasticRefuseAModelThatIsWrittenBehindItsConsensus) {
  for (const char* text : {"admm:centre=server", "elastic:centre=server"}) {
    run_ranks(1, {.servers = 1}, [&](Job& job) {
      if (job.role() == Role::server) return serve(job);
      Trainee model(job, text);
      model.step(0, 0);
      model.write();
      { const auto consensus = model.parallel.consensus(); }
      model.step(0, 1);
      model.write();
      { const auto consensus = model.parallel.consensus(); }
      model.write();
      EXPECT_THAT(misuse_of([&] { model.step(0, 2); }),
                  HasSubstr("the model was written between two steps"))
          << text;
    });
  }
}

// The third rank waits for one more in the exchange of the first model, and the others for the third
// one, with which they make the table of the second model.
TEST(AdmmCentre, OfTwoModelsMakesTheSecondTableThoughARankWaitsForAnExchange) {
  for (const char* second : {"elastic:centre=server", "asp"}) {
    run_ranks(3, {.servers = 1}, [&](Job& job) {
      if (job.role() == Role::server) return serve(job);
      Trainee one(job, "admm:centre=server,period=1,barrier=2"), two(job, second);
      for (int k = 0; k < 2; ++k)
        for (Trainee* model : {&one, &two}) model->step(job.rank(), k);
      for (Trainee* model : {&one, &two}) model->parallel.finish();
    });
  }
}

TEST(AdmmCentre, NeedsServersAndSaysWhichSettingsAreTheirs) {
  EXPECT_FALSE(strategy::parse_strategy("admm").value().on_servers());
  EXPECT_TRUE(strategy::parse_strategy("admm:centre=server").value().on_servers());
  run_ranks(2, [&](Job& job) {
    TaskNet net("linear");
    EXPECT_THAT(
        misuse_of([&] { DataParallel parallel(net, job, {.synchrony = "admm:centre=server"}); }),
        AllOf(HasSubstr("admm"), HasSubstr("this job has none"), HasSubstr("--servers")));
    for (const char* text : {"admm:barrier=1", "admm:delay=2"})
      EXPECT_THAT(misuse_of([&] { DataParallel parallel(net, job, {.synchrony = text}); }),
                  HasSubstr("add centre=server"));
  });
}

}  // namespace
}  // namespace paceline
