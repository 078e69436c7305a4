// Local SGD (docs/strategies/local_sgd.md).
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

// The definition, in one thread.
at::Tensor serial_local_sgd(const SharedTask& task, SerialWorld& world, int period) {
  for (int k = 0; k < task.steps; ++k) {
    world.local_step(k);
    if ((k + 1) % period != 0) continue;
    world.set_all(world.mean());
    world.restart();
  }
  return world.mean();
}

TEST(LocalSgd, IsTheSerialProgramThatHoldsAllReplicas) {
  for (const SharedTask& task : oracle_tasks()) {
    SerialWorld world(task);
    const at::Tensor consensus = serial_local_sgd(task, world, 8);
    expect_equals_serial(train_on_ranks(task, "local_sgd"), world, consensus);
  }
}

TEST(LocalSgd, OfPeriodOneIsSynchronousForSgdAndWithKeptOrAveragedMomentum) {
  for (const double momentum : {0.0, 0.9}) {
    // Momenta that ranks keep obey the recursion of their mean where weights do not change.
    const SharedTask task{.ranks = 3,
                          .steps = 30,
                          .batch = SharedTask::even_batches,
                          .optimizer = SharedTask::momentum_sgd(0.1, momentum)};
    const Trained synchronous = train_on_ranks(task, "synchronous");
    for (const char* policy : {"keep", "average", "reset"}) {
      const Trained local = train_on_ranks(task, c10::str("local_sgd:period=1,momentum=", policy));
      const double away = difference(local.replicas[1], synchronous.replicas[1]);
      if (momentum > 0 && std::string(policy) == "reset") EXPECT_GT(away, 1e-3);
      else EXPECT_LE(away, 1e-12) << momentum << " " << policy;
    }
  }
}

TEST(LocalSgd, OfPeriodOneIsNeverSynchronousForAdam) {
  const SharedTask task{
      .ranks = 3, .steps = 10, .optimizer = [](std::vector<at::Tensor> parameters) {
        return std::make_unique<torch::optim::Adam>(std::move(parameters),
                                                    torch::optim::AdamOptions(0.01));
      }};
  const Trained synchronous = train_on_ranks(task, "synchronous");
  for (const char* policy : {"keep", "average"}) {
    const Trained local = train_on_ranks(task, c10::str("local_sgd:period=1,momentum=", policy));
    EXPECT_GT(difference(local.replicas[0], synchronous.replicas[0]), 1e-6);
  }
}

TEST(LocalSgd, BringsTheModelOnceAPeriod) {
  const SharedTask task{.ranks = 2, .steps = 20};
  const Trained trained = train_on_ranks(task, "local_sgd:period=6");
  const auto elements = static_cast<double>(trained.replicas[0].numel());
  for (const StepReport& report : trained.reports) {
    EXPECT_EQ(report.exchange.exchanges, 3);
    EXPECT_EQ(report.exchange.bytes, 3 * 8 * elements);
    EXPECT_EQ(report.exchange.period, 6);
    EXPECT_GT(report.exchange.distance, 0);
  }
}

TEST(LocalSgd, AfterSomeStepsIsSynchronousUntilThenAndLocalAfterwards) {
  const SharedTask task{.ranks = 3, .steps = 12, .optimizer = SharedTask::momentum_sgd(0.1, 0)};
  const Trained post_local = train_on_ranks(task, "local_sgd:period=4,after=5");
  const Trained by_hand =
      train_on_ranks(task, "synchronous", [](DataParallel& parallel, auto&, int step) {
        if (step == 4) parallel.synchrony("local_sgd:period=4");
      });
  EXPECT_TRUE(post_local.replicas[1].equal(by_hand.replicas[1]));
  EXPECT_EQ(post_local.reports[0].step, 12);
}

TEST(LocalSgd, AfterSomeStepsHasScheduleAndCompressionUntilThen) {
  run_ranks(2, [](Job& job) {
    TaskNet net("mlp");
    net.to(at::kFloat);
    DataParallel parallel(net, job,
                          {.synchrony = "local_sgd:period=2,after=20",
                           .schedule = "wait_free",
                           .compression = "fp16:min_compress_bytes=0"});
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    int coded = 0;
    for (int k = 0; k < 24; ++k) {
      optimizer.zero_grad();
      const Samples some = samples(k, 4);
      net.loss({some.x.to(at::kFloat), some.y.to(at::kFloat)}).backward();
      parallel.step(optimizer);
      if (parallel.last_step().coded_bytes == 0) continue;
      ++coded;
      EXPECT_LT(k, 20);
    }
    EXPECT_GT(coded, 0);
    EXPECT_EQ(parallel.last_step().exchange.exchanges, 2);
  });
}

TEST(LocalSgd, OnUnequalQuadraticsEndsAtItsOwnFixedPoint) {
  // f_r(x) = a_r (x - b_r)^2 / 2: the fixed point is sum c_r b_r / sum c_r with
  // c_r = 1 - (1 - eta a_r)^tau, and not the optimum 0.8.
  run_ranks(2, [](Job& job) {
    nn::Linear model(nn::LinearOptions(1, 1).bias(false));
    model->to(at::kDouble);
    at::NoGradGuard no_grad;
    model->weight.fill_(0.3);
    const double a = job.rank() == 0 ? 1 : 4, b = job.rank() == 0 ? 0 : 1;
    DataParallel parallel(model, job, {.synchrony = "local_sgd:period=8"});
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    for (int k = 0; k < 8 * 60; ++k) {
      at::AutoGradMode with_grad(true);
      optimizer.zero_grad();
      (a / 2 * (model->weight - b).square()).sum().backward();
      parallel.step(optimizer);
    }
    EXPECT_NEAR(model->weight.item<double>(), 0.633207, 1e-6);
  });
}

}  // namespace
}  // namespace paceline
