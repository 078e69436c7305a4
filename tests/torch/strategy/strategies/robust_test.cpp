// Robust aggregation (docs/strategies/robust.md).
#include <limits>

#include "paceline/core/collective/collective.h"
#include "paceline/torch/strategy/strategy.h"
#include "tests/torch/parallel/saved_training.h"
#include "tests/torch/strategy/rules/plain_rules.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

const std::vector<std::string> kRobustRules = {"krum",         "multi_krum",       "median",
                                               "trimmed_mean", "geometric_median", "clipping"};

// The rule bears so many.
int most_faulty(const std::string& rule, int ranks) {
  return (ranks - (rule.ends_with("krum") ? 3 : 1)) / 2;
}
std::string robust_text(const std::string& rule, int ranks) {
  return c10::str("robust:rule=", rule, ",faulty=", most_faulty(rule, ranks));
}

// All replicas take the rule's gradient of those that have a batch.
void serial_robust(const SharedTask& task, SerialWorld& world, const std::string& rule) {
  at::Tensor centre = at::zeros_like(world.x(0));
  for (int k = 0; k < task.steps; ++k) {
    std::vector<at::Tensor> rows;
    for (int r = 0; r < task.ranks; ++r) {
      if (!world.has_batch(r, k)) continue;
      world.make_gradient(r, k);
      rows.push_back(flat_gradient(*world.nets[SerialWorld::at(r)]));
    }
    const at::Tensor result =
        plain_rule(rule, at::stack(rows), most_faulty(rule, task.ranks), centre);
    centre = result;
    for (int r = 0; r < task.ranks; ++r) {
      set_flat_gradient(*world.nets[SerialWorld::at(r)], result);
      world.update(r);
    }
  }
}

std::vector<SharedTask> robust_tasks() {
  std::vector<SharedTask> tasks = {
      {.ranks = 3, .steps = 100},
      {.ranks = 4, .steps = 100, .tells_weights = false, .model = "linear"},
      oracle_tasks().back()};
  EXPECT_FALSE(tasks.back().batch(0, 6));
  // Ranks that have no batch now and then.
  tasks.push_back({.ranks = 5, .steps = 100, .batch = [](int rank, int step) {
                     return (step + rank) % 7 == 0 ? std::nullopt
                                                   : SharedTask::uneven_batches(rank, step);
                   }});
  return tasks;
}

TEST(Robust, IsTheSerialProgramThatHoldsAllReplicas) {
  for (const SharedTask& task : robust_tasks()) {
    for (const std::string& rule : kRobustRules) {
      SerialWorld world(task);
      serial_robust(task, world, rule);
      const Trained trained = train_on_ranks(task, robust_text(rule, task.ranks));
      expect_equals_serial(trained, world, world.x(0));
      for (const at::Tensor& replica : trained.replicas)
        EXPECT_TRUE(replica.equal(trained.replicas[0])) << rule << " on " << task.ranks;
    }
  }
}

// --- distrust ------------------------------------------------------------------------------------

// The mean loss on new data after a training in which rank 0's gradients are multiplied by
// `factor`. Replicas must have equal bits. NaN: training stopped.
double loss_after(const std::string& synchrony, double factor) {
  const at::Tensor truth = samples(-1, 6).y;
  const auto learnable = [&](int seed, std::int64_t count) {
    const Samples drawn = samples(seed, count);
    return Samples{drawn.x, drawn.x.mm(truth) + 0.1 * drawn.y};
  };
  SameEverywhere same;
  double loss = 0;
  run_ranks(5, [&](Job& job) {
    TaskNet net("linear");
    DataParallel parallel(net, job, {.synchrony = synchrony});
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    for (int k = 0; k < 80; ++k) {
      optimizer.zero_grad();
      const Samples batch = learnable(1000 + 10 * k + job.rank(), 16);
      (net.loss(batch) * (job.rank() == 0 ? factor : 1.0)).backward();
      parallel.step(optimizer);
    }
    same.tell("model", net.parameters());
    if (job.rank() == 0) loss = net.loss(learnable(999, 200)).item<double>();
  });
  return loss;
}

TEST(Robust, BearsARankThatTurnsItsGradientRoundOrMakesNoNumbers) {
  const double clean = loss_after("synchronous", 1);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double factor : {-10.0, kNan}) {
    EXPECT_FALSE(loss_after("synchronous", factor) < 10 * clean) << factor;
    // Each faulty rank may pull the centre of clipping by its radius.
    for (const std::string& rule : kRobustRules)
      EXPECT_LT(loss_after(robust_text(rule, 5) + ",radius=0.3", factor), 2 * clean)
          << rule << " " << factor;
  }
}

TEST(Robust, LeavesOutAStepInWhichNoRankMadeNumbers) {
  run_ranks(3, [](Job& job) {
    TaskNet net("linear");
    DataParallel parallel(net, job, {.synchrony = "robust:rule=clipping"});
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    const at::Tensor before = flat(net);
    (net.loss(samples(1, 4)) * std::numeric_limits<double>::quiet_NaN()).backward();
    EXPECT_TRUE(parallel.step(optimizer));
    EXPECT_TRUE(parallel.last_step().overflowed);
    EXPECT_TRUE(flat(net).equal(before));
    optimizer.zero_grad();
    net.loss(samples(2, 4)).backward();
    EXPECT_TRUE(parallel.step(optimizer));
    EXPECT_FALSE(parallel.last_step().overflowed);
    EXPECT_FALSE(flat(net).equal(before));
  });
}

// --- gradients as users know them ----------------------------------------------------------------

TEST(Robust, AccumulatesAsOneProcessDoesAndLeavesAloneWhatNobodyUsed) {
  run_ranks(3, [](Job& job) {
    Net net;
    DataParallel parallel(net, job, {.synchrony = "robust:rule=median,faulty=1"});
    const auto backward = [&](Net& of, int rank, int pass) {
      (loss_of(of, samples(10 * rank + pass, 4), rank == 1) / 2).backward();
    };
    {
      const auto guard = parallel.no_sync();
      backward(net, job.rank(), 0);
    }
    backward(net, job.rank(), 1);
    ASSERT_TRUE(parallel.synchronize());
    std::vector<at::Tensor> rows;
    for (int rank = 0; rank < 3; ++rank) {
      Net other;
      for (const int pass : {0, 1}) backward(other, rank, pass);
      rows.push_back(flat_gradient(other));
    }
    EXPECT_LE(difference(flat_gradient(net), plain_rule("median", at::stack(rows), 1)), 1e-12);
    // The side branch was used by one rank of three, whose gradient is the odd one out.
    EXPECT_TRUE(net.side->weight.grad().equal(at::zeros_like(net.side->weight)));

    net.zero_grad();
    loss_of(net, samples(job.rank(), 4)).backward();
    ASSERT_TRUE(parallel.synchronize());
    EXPECT_FALSE(net.side->weight.grad().defined());
    EXPECT_EQ(parallel.last_step().used, 6);
  });
}

TEST(Robust, StepsOptimizersOfItsOwn) {
  run_ranks(3, [](Job& job) {
    TaskNet net("mlp"), by_hand("mlp");
    DataParallel own(net, job,
                     {.synchrony = "robust:rule=median", .optimizer = [](at::Tensor p, auto&) {
                        return std::make_unique<torch::optim::SGD>(std::vector{p}, 0.1);
                      }});
    DataParallel given(by_hand, job, {.synchrony = "robust:rule=median"});
    torch::optim::SGD optimizer(by_hand.parameters(), 0.1);
    for (int k = 0; k < 5; ++k) {
      net.loss(samples(10 * job.rank() + k, 4)).backward();
      EXPECT_TRUE(own.step());
      optimizer.zero_grad();
      by_hand.loss(samples(10 * job.rank() + k, 4)).backward();
      EXPECT_TRUE(given.step(optimizer));
    }
    EXPECT_TRUE(flat(net).equal(flat(by_hand)));
  });
}

TEST(Robust, EndsWhenNoRankHasABatch) {
  run_ranks(3, [](Job& job) {
    TaskNet net("linear");
    DataParallel parallel(net, job, {.synchrony = "robust:rule=median"});
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    int steps = 0;
    parallel.weight(job.rank() == 1 ? 4 : 0);
    if (job.rank() == 1) net.loss(samples(1, 4)).backward();
    while (parallel.step(optimizer)) {
      ++steps;
      parallel.weight(0);
    }
    EXPECT_EQ(steps, 1);
    EXPECT_EQ(parallel.last_step().shadows, 3);
  });
}

// --- bytes, states, misuse -----------------------------------------------------------------------

TEST(Robust, BringsItsGradientOnceAStepAsItsTrafficSays) {
  const SharedTask task{.ranks = 3, .steps = 10};
  const strategy::StrategyChoice choice = strategy::parse_strategy("robust:rule=median").value();
  const Trained trained = train_on_ranks(task, choice.text());
  const auto elements = static_cast<double>(trained.replicas[0].numel());
  const auto traffic = choice.strategy.traffic(choice.settings, {.elements = elements, .ranks = 3});
  ASSERT_EQ(traffic.size(), 1U);
  EXPECT_EQ(traffic[0].operation, Operation::all_gather);
  EXPECT_EQ(traffic[0].every, 1);
  for (const StepReport& report : trained.reports) {
    EXPECT_EQ(report.exchange.exchanges, 10);
    EXPECT_EQ(report.exchange.bytes, 10 * 8 * elements);
    EXPECT_EQ(report.exchange.bytes, 10 * 8 * traffic[0].elements);
    EXPECT_EQ(report.exchange.period, 1);
    EXPECT_GT(report.exchange.distance, 0);
    EXPECT_EQ(report.exchange.distance, trained.reports[0].exchange.distance);
  }
}

TEST(Robust, BringsFourBytesOfAFloatAndNothingWithoutABatch) {
  run_ranks(3, [](Job& job) {
    Net net(at::kFloat);
    DataParallel parallel(net, job, {.synchrony = "robust:rule=median"});
    torch::optim::SGD optimizer = sgd(net);
    const bool has_batch = job.rank() != 1;
    parallel.weight(has_batch ? 2 : 0);
    if (has_batch) loss_of(net, samples(job.rank(), 2)).backward();
    EXPECT_TRUE(parallel.step(optimizer));
    EXPECT_EQ(parallel.last_step().exchange.bytes,
              has_batch ? 4 * static_cast<double>(flat(net).numel()) : 0);
    EXPECT_EQ(parallel.last_step().shadows, 1);
  });
}

TEST(Robust, GoesOnFromASavedStateToTheBit) {
  for (const std::string& rule : kRobustRules) {
    const DataParallelOptions options{.synchrony = c10::str(robust_text(rule, 3), ",rounds=1")};
    std::vector<replica::SynchronyState> states(3);
    std::vector<at::Tensor> halfway(3), ends(3);
    const auto train = [](Job& job, DataParallel& parallel, TaskNet& net, int begin, int end) {
      torch::optim::SGD optimizer(net.parameters(), 0.1);
      for (int k = begin; k < end; ++k) {
        optimizer.zero_grad();
        net.loss(samples(10 * job.rank() + k, 4)).backward();
        parallel.step(optimizer);
      }
    };
    run_ranks(3, [&](Job& job) {
      TaskNet net("mlp");
      DataParallel parallel(net, job, options);
      train(job, parallel, net, 0, 4);
      const auto rank = static_cast<std::size_t>(job.rank());
      states[rank] = state_of(parallel);
      halfway[rank] = flat(net);
      train(job, parallel, net, 4, 8);
      ends[rank] = flat(net);
    });
    EXPECT_EQ(states[1].own.empty(), rule != "clipping");
    run_ranks(3, [&](Job& job) {
      TaskNet net("mlp");
      const auto rank = static_cast<std::size_t>(job.rank());
      set_flat(net, halfway[rank]);
      DataParallel parallel(net, job, options);
      parallel.replicas().synchrony().restore(saved_by(states));
      train(job, parallel, net, 4, 8);
      EXPECT_TRUE(flat(net).equal(ends[rank])) << rule;
    });
  }
}

TEST(Robust, RefusesWhatDoesNotFitByName) {
  const auto refusal = [](const DataParallelOptions& options, const auto& make_model,
                          int ranks = 3) {
    std::string told;
    try {
      run_ranks(ranks, [&](Job& job) {
        auto model = make_model();
        DataParallel parallel(model, job, options);
      });
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::misuse) << error.what();
      told = error.what();
    }
    return told;
  };
  const auto linear = [] { return nn::Linear(2, 2); };
  const std::string median = "robust:rule=median";
  EXPECT_THAT(refusal({.synchrony = "robust:rule=krum,faulty=1"}, linear, 4),
              AllOf(HasSubstr("2 * 1 + 3 = 5"), HasSubstr("there are 4"), HasSubstr("median")));
  EXPECT_THAT(refusal({.synchrony = "robust:rule=mean"}, linear), HasSubstr("krum"));
  EXPECT_THAT(refusal({.synchrony = median, .compression = "fp16"}, linear),
              AllOf(HasSubstr("robust"), HasSubstr("compression")));
  EXPECT_THAT(refusal({.synchrony = median, .schedule = "priority"}, linear),
              HasSubstr("schedule"));
  EXPECT_THAT(refusal({.synchrony = median},
                      [] { return nn::Embedding(nn::EmbeddingOptions(4, 2).sparse(true)); }),
              AllOf(HasSubstr("'weight'"), HasSubstr("sparse")));
  EXPECT_THAT(refusal({.synchrony = median},
                      [] {
                        nn::Linear half(2, 2);
                        half->to(at::kBFloat16);
                        return half;
                      }),
              HasSubstr("f32 or f64"));
}

TEST(Robust, SeesAnOptimizerThatSteppedByItselfAndAStepWithoutAGradient) {
  run_ranks(3, [](Job& job) {
    TaskNet net("linear");
    DataParallel parallel(net, job, {.synchrony = "robust:rule=median"});
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    net.loss(samples(1, 4)).backward();
    EXPECT_THAT(misuse_of([&] { parallel.weight(0); }), HasSubstr("weight(0)"));
    optimizer.step();
    EXPECT_THAT(misuse_of([&] { parallel.step(optimizer); }),
                HasSubstr("parallel.step(optimizer)"));
    EXPECT_THAT(misuse_of([&] { parallel.step(optimizer); }), HasSubstr("backward()"));
  });
}

}  // namespace
}  // namespace paceline
