// Laws of the synchronies on servers, in fp64, with ranks and servers as threads.
#include "paceline/torch/strategy/server/server_synchrony.h"

#include <latch>

#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

namespace optim = torch::optim;
using Make = decltype(SharedTask::optimizer);

template <typename Optimizer, typename Options>
Make with(const Options& options) {
  return [options](std::vector<at::Tensor> parameters) {
    return std::make_unique<Optimizer>(std::move(parameters), options);
  };
}

// All ranks end with equal bits; returns them.
at::Tensor common(const Trained& trained, const std::string& what) {
  for (const at::Tensor& one : trained.replicas)
    EXPECT_TRUE(one.equal(trained.replicas[0])) << what;
  return trained.replicas[0];
}

void fall(DataParallel&, optim::Optimizer& optimizer, int) {
  for (auto& group : optimizer.param_groups())
    group.options().set_lr(group.options().get_lr() * 0.99);
}

struct RuleCase {
  std::string name;
  Make optimizer;
  double tolerance = 1e-10;
};

std::vector<RuleCase> rule_cases() {
  return {{"sgd", with<optim::SGD>(optim::SGDOptions(0.1)), 1e-12},
          {"sgd with momentum",
           with<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9).weight_decay(1e-3)), 1e-12},
          {"sgd with Nesterov's momentum",
           with<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9).nesterov(true)), 1e-12},
          {"adagrad", with<optim::Adagrad>(optim::AdagradOptions(0.05).lr_decay(0.01))},
          {"rmsprop", with<optim::RMSprop>(optim::RMSpropOptions(0.01).momentum(0.5))},
          {"centred rmsprop", with<optim::RMSprop>(optim::RMSpropOptions(0.01).centered(true))},
          {"adam", with<optim::Adam>(optim::AdamOptions(0.01).weight_decay(1e-3))},
          {"adamw", with<optim::AdamW>(optim::AdamWOptions(0.01))}};
}

// The rate falls from step to step, and batches have different sizes.
TEST(ServerSynchrony, BspIsSynchronousTrainingByEveryRule) {
  for (const RuleCase& rule : rule_cases()) {
    for (const char* model : {"mlp", "linear"}) {
      SharedTask task{.ranks = 3, .steps = 100, .optimizer = rule.optimizer, .model = model};
      const at::Tensor expected = common(train_on_ranks(task, "synchronous", fall), rule.name);
      task.servers = 2;
      const Trained trained = train_on_ranks(task, "bsp", fall);
      EXPECT_LE(difference(common(trained, rule.name), expected), rule.tolerance)
          << rule.name << ", " << model;
    }
  }
}

TEST(ServerSynchrony, WhatWaitsForAllHasTheBitsOfBsp) {
  for (const int ranks : {1, 2, 4}) {
    const SharedTask task{.ranks = ranks, .steps = 25, .servers = 2};
    const at::Tensor expected = common(train_on_ranks(task, "bsp"), "bsp");
    for (const char* text : {"ssp:staleness=0", "bounded_delay:steps=0", "backup_workers:spare=0",
                             "timeout:milliseconds=1e6"})
      EXPECT_TRUE(common(train_on_ranks(task, text), text).equal(expected)) << text << ranks;
  }
}

// Momenta that each rank keeps have the mean that one momentum has, if ranks count alike.
TEST(ServerSynchrony, WorkersThatStepTheirCopiesInStepAreSynchronousTraining) {
  SharedTask task{
      .ranks = 3, .steps = 100, .batch = SharedTask::even_batches, .tells_weights = false};
  for (const bool nesterov : {false, true}) {
    task.optimizer = SharedTask::momentum_sgd(0.1, 0.9, nesterov);
    task.servers = 0;
    const at::Tensor expected = common(train_on_ranks(task, "synchronous"), "synchronous");
    task.servers = 2;
    const Trained trained = train_on_ranks(task, "ssp:staleness=0,update=worker");
    EXPECT_LE(difference(common(trained, "ssp"), expected), 1e-10);
  }
}

// Weights that differ from rank to rank, and not from step to step.
TEST(ServerSynchrony, WorkersThatStepTheirCopiesCountByTheirWeights) {
  SharedTask task{.ranks = 3, .steps = 40, .batch = [](int rank, int step) {
                    return std::optional(samples(100 * rank + step, 1 + 2 * rank));
                  }};
  const at::Tensor expected = common(train_on_ranks(task, "synchronous"), "synchronous");
  task.servers = 1;
  const Trained trained = train_on_ranks(task, "ssp:staleness=0,update=worker");
  EXPECT_LE(difference(common(trained, "ssp"), expected), 1e-10);
}

TEST(ServerSynchrony, OfOneRankIsThePlainLoop) {
  SharedTask task{.ranks = 1, .steps = 30};
  const at::Tensor expected = train_on_ranks(task, "synchronous").replicas[0];
  task.servers = 2;
  for (const char* text : {"bsp", "ssp", "asp", "ssp:update=worker", "asp:update=worker", "timeout",
                           "bounded_delay:steps=0"})
    EXPECT_LE(difference(train_on_ranks(task, text).replicas[0], expected), 1e-12) << text;
}

TEST(ServerSynchrony, OptimizersOfEachParameterDoWhatOneOfAllDoes) {
  const SharedTask task{.ranks = 2, .steps = 12, .servers = 1};
  for (const char* text : {"bsp", "ssp:staleness=0,update=worker"}) {
    const at::Tensor expected = common(train_on_ranks(task, text), text);
    run_ranks(2, {.servers = 1}, [&](Job& job) {
      if (job.role() == Role::server) return serve(job);
      auto net = std::make_shared<TaskNet>(task.model);
      DataParallelOptions options{.synchrony = text};
      options.optimizer = [&](const at::Tensor& one) { return task.optimizer({one}); };
      DataParallel parallel(net, job, options);
      for (int k = 0; k < task.steps; ++k) {
        parallel.weight(task.weight(job.rank(), k));
        net->loss(*task.batch(job.rank(), k)).backward();
        EXPECT_TRUE(parallel.step());
        for (const at::Tensor& one : net->parameters()) EXPECT_FALSE(one.grad().defined());
      }
      EXPECT_TRUE(flat(*net).equal(expected)) << text;
    });
  }
}

// --- rests ---------------------------------------------------------------------------------------

// Each rank makes a number of steps of its own, with a gradient that depends on nothing but the
// rank; returns what all have after finish(), less what they began with.
at::Tensor moved_by(const std::string& synchrony, const std::vector<int>& steps) {
  const auto ranks = static_cast<int>(steps.size());
  std::vector<at::Tensor> ends(steps.size());
  run_ranks(ranks, {.servers = 2}, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    TaskNet net("linear");
    const at::Tensor begin = flat(net);
    DataParallel parallel(net, job, {.synchrony = synchrony});
    optim::SGD optimizer(net.parameters(), 0.125);
    for (int k = 0; k < steps[static_cast<std::size_t>(job.rank())]; ++k) {
      optimizer.zero_grad();
      at::Tensor sum = at::zeros({}, at::kDouble);
      for (const at::Tensor& one : net.parameters()) sum = sum + one.sum();
      (sum * (1 + job.rank())).backward();
      parallel.step(optimizer);
    }
    parallel.finish();
    ends[static_cast<std::size_t>(job.rank())] = flat(net) - begin;
  });
  for (const at::Tensor& one : ends) EXPECT_TRUE(one.equal(ends[0])) << synchrony;
  return ends[0];
}

// Rank r counts for a third, and its gradient is r + 1.
TEST(ServerSynchrony, AfterFinishEveryUpdateIsInAllReplicasOnce) {
  const std::vector<int> steps = {3, 5, 9};
  const double expected = -0.125 * (3 * 1 + 5 * 2 + 9 * 3) / 3.0;
  for (const char* text : {"ssp:staleness=1", "ssp:staleness=7", "asp", "ssp:update=worker",
                           "asp:update=worker", "downpour:push=4,fetch=3,warm_start=0",
                           "downpour:push=2,fetch=5,fetching=blocking,warm_start=0"}) {
    for (int repeat = 0; repeat < 5; ++repeat) {
      const at::Tensor moved = moved_by(text, steps);
      EXPECT_LE((moved - expected).abs().max().item<double>(), 1e-12) << text;
    }
  }
}

TEST(ServerSynchrony, AfterFinishReplicasAreEqualWhateverStepsTheRanksHaveMade) {
  for (const char* text :
       {"bsp", "bounded_delay:steps=2", "bounded_delay:steps=2,exact=on", "backup_workers:spare=1",
        "timeout:milliseconds=5", "timeout:milliseconds=5,late=apply_late"})
    EXPECT_LT(moved_by(text, {3, 5, 9}).max().item<double>(), 0) << text;
}

TEST(ServerSynchrony, ChangesInOneRunLeaveReplicasEqualAndGoOn) {
  for (const bool adam : {true, false}) {
    SharedTask task{.ranks = 3, .steps = 30, .servers = 2};
    if (adam) task.optimizer = with<optim::Adam>(optim::AdamOptions(0.01));
    SameEverywhere same;
    const std::map<int, std::string> changes = {{5, "ssp:staleness=2"},
                                                {11, "synchronous"},
                                                {14, "downpour:warm_start=2"},
                                                {17, "asp:update=worker"},
                                                {23, "bsp"}};
    const Trained trained = train_on_ranks(
        task, "bsp", [&](DataParallel& parallel, optim::Optimizer& optimizer, int step) {
          if (!changes.contains(step)) return;
          parallel.synchrony(changes.at(step));
          same.tell(c10::str("after step ", step), optimizer.param_groups()[0].params());
        });
    common(trained, "at the end");
    EXPECT_EQ(trained.reports[0].step, 30);
  }
}

// Buffers of a layer that normalises are each rank's own until then.
TEST(ServerSynchrony, ConsensusMakesBuffersEqualAndGivesThemBack) {
  SameEverywhere same;
  run_ranks(2, {.servers = 1}, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    nn::Sequential net(nn::BatchNorm1d(6), nn::Linear(6, 3));
    net->to(at::kDouble);
    DataParallel parallel(net, job, {.synchrony = "ssp"});
    optim::SGD optimizer(net->parameters(), 0.1);
    const Samples own = samples(job.rank(), 4);
    at::mse_loss(net->forward(own.x), own.y).backward();
    parallel.step(optimizer);
    const at::Tensor before = net->buffers()[0].clone();
    {
      const auto shared = parallel.consensus();
      same.tell("parameters", net->parameters());
      same.tell("buffers", net->buffers());
      EXPECT_FALSE(net->buffers()[0].equal(before));
    }
    EXPECT_TRUE(net->buffers()[0].equal(before));
  });
}

// --- what partial steps and stale reads do -------------------------------------------------------

// Two loops of equal ranks on one batch, whose optimum is that of the batch.
TEST(ServerSynchrony, AsynchronousAndPartialStepsConvergeToTheOptimum) {
  const SharedTask plain{.ranks = 1,
                         .steps = 600,
                         .batch = [](int, int) { return std::optional(samples(1, 20)); },
                         .optimizer = SharedTask::momentum_sgd(0.1, 0),
                         .model = "linear"};
  const at::Tensor optimum = train_on_ranks(plain, "synchronous").replicas[0];
  SharedTask task = plain;
  task.ranks = 3;
  task.servers = 2;
  for (const char* text :
       {"asp", "asp:update=worker", "backup_workers", "ssp",
        "timeout:milliseconds=0.1,late=fold_into_next", "downpour:warm_start=20"})
    EXPECT_LE(difference(train_on_ranks(task, text).consensus[0], optimum), 1e-3) << text;
}

TEST(ServerSynchrony, ReportsTellUpdatesByTheirStaleness) {
  using Staleness = std::map<std::int64_t, std::int64_t>;
  const SharedTask task{.ranks = 3, .steps = 10, .servers = 2};
  const auto report_of = [&](const char* text) {
    return train_on_ranks(task, text).reports[1].servers;
  };
  for (const char* text : {"bsp", "ssp:staleness=0", "timeout:milliseconds=1e6"}) {
    const replica::ServerReport report = report_of(text);
    EXPECT_EQ(report.version, 10) << text;
    EXPECT_EQ(report.used, 10) << text;
    EXPECT_EQ(report.dropped, 0) << text;
    EXPECT_EQ(report.staleness, (Staleness{{0, 10}})) << text;
  }
  // A row of version t - 2 is read before step t, so versions 0, 0, 0, 1, 2, ...
  const replica::ServerReport delayed = report_of("bounded_delay:steps=2,exact=on");
  EXPECT_EQ(delayed.version, 8);
  for (const auto& [staleness, count] : delayed.staleness) EXPECT_LE(staleness, 2) << count;
  for (const char* text : {"asp", "ssp:staleness=3", "asp:update=worker"}) {
    const replica::ServerReport report = report_of(text);
    std::int64_t sum = 0;
    for (const auto& [staleness, count] : report.staleness) sum += count;
    EXPECT_EQ(sum, 10) << text;
    EXPECT_EQ(report.used, 10) << text;
  }
}

TEST(ServerSynchrony, APushThatComesTooLateIsToldAsDropped) {
  std::latch first_steps(3), five_steps(2);
  run_ranks(3, {.servers = 1}, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    TaskNet net("linear");
    DataParallel parallel(net, job, {.synchrony = "backup_workers:spare=1"});
    optim::SGD optimizer(net.parameters(), 0.1);
    const auto step = [&](bool waits) {
      optimizer.zero_grad();
      net.loss(samples(job.rank(), 4)).backward();
      if (waits) five_steps.wait();
      parallel.step(optimizer);
      return parallel.last_step().servers;
    };
    const auto first = step(false);
    first_steps.arrive_and_wait();
    if (job.rank() < 2) {
      for (int k = 0; k < 5; ++k) step(false);
      five_steps.count_down();
    } else {
      const auto late = step(true);
      EXPECT_EQ(late.dropped, first.dropped + 1);
      EXPECT_EQ(late.used, first.used);
      EXPECT_EQ(late.version, 6);
    }
    parallel.finish();
  });
}

TEST(ServerSynchrony, LoopsThatJoinEndOnAllRanksUnderBsp) {
  SharedTask task{.ranks = 4, .steps = 7, .batch = [](int rank, int step) {
                    const int lengths[] = {3, 5, 5, 7};
                    return step < lengths[rank] ? SharedTask::uneven_batches(rank, step)
                                                : std::nullopt;
                  }};
  const at::Tensor expected = common(train_on_ranks(task, "synchronous"), "synchronous");
  task.servers = 2;
  EXPECT_LE(difference(common(train_on_ranks(task, "bsp"), "bsp"), expected), 1e-12);
  run_ranks(2, {.servers = 1}, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    TaskNet net("linear");
    DataParallel parallel(net, job, {.synchrony = "bsp"});
    optim::SGD optimizer(net.parameters(), 0.1);
    std::vector<Samples> loader(static_cast<std::size_t>(2 + 2 * job.rank()), samples(1, 3));
    int turns = 0;
    for (auto turn : parallel.join(loader)) {
      ++turns;
      net.zero_grad();
      if (turn) net.loss(*turn).backward();
      parallel.step(optimizer);
    }
    EXPECT_EQ(turns, 5) << "four batches of the last rank, and the turn that ends it";
  });
}

}  // namespace
}  // namespace paceline
