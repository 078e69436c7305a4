// Laws of every strategy of the catalogue: switching, consensus, bytes, texts.
#include "paceline/torch/strategy/strategy.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

// Texts of all strategies that need no servers, such that few steps show their effect.
std::vector<std::string> all_texts() {
  std::vector<std::string> texts;
  for (const strategy::Strategy& one : strategy::strategies()) {
    if (one.on_servers) continue;
    std::string text(one.name);
    for (const Setting& setting : one.settings)
      if (setting.name == "period") text += ":period=3";
    if (one.name == "adacomm") text += ":start=3,interval=4";
    if (one.name == "robust") text += ":rule=median,faulty=1";
    texts.push_back(text);
  }
  return texts;
}

TEST(Strategies, ThatOnlyMixReplicasAreThePlainLoopAtOneRankToTheBit) {
  const SharedTask task{.ranks = 1, .steps = 12};
  const Trained plain = train_on_ranks(task, "synchronous");
  for (const char* text : {"none", "local_sgd:period=3", "adacomm:start=3,interval=4", "gossip",
                           "gossip:order=atc", "push_sum"}) {
    EXPECT_TRUE(train_on_ranks(task, text).replicas[0].equal(plain.replicas[0])) << text;
  }
}

// The second strategy begins where the first one's consensus is, with the optimizers' states; the
// mean of these where it holds replicas equal.
TEST(Strategies, AfterASwitchHaveTheBitsOfTheSecondBegunAtTheFirstsConsensus) {
  const SharedTask task{.ranks = 3, .steps = 14};
  for (const std::string& first : all_texts()) {
    for (const std::string& second : all_texts()) {
      if (first.starts_with("async") || second.starts_with("async")) continue;
      const Trained switched =
          train_on_ranks(task, first, [&](DataParallel& parallel, auto&, int step) {
            if (step == 6) parallel.synchrony(second);
          });
      std::vector<at::Tensor> by_hand(3);
      run_ranks(3, [&](Job& job) {
        auto net = std::make_shared<TaskNet>(task.model);
        const auto optimizer = task.optimizer(net->parameters());
        const auto train = [&](DataParallel& parallel, int begin, int end) {
          for (int k = begin; k < end; ++k) {
            const auto batch = task.batch(job.rank(), k);
            parallel.weight(task.weight(job.rank(), k));
            net->zero_grad();
            const at::Tensor loss = net->loss(*batch);
            loss.backward();
            parallel.loss(loss.item<double>());
            parallel.step(*optimizer);
          }
        };
        at::Tensor consensus;
        {
          DataParallel parallel(net, job, {.synchrony = first});
          train(parallel, 0, 7);
          const auto shared = parallel.consensus();
          consensus = flat(*net);
        }
        set_flat(*net, consensus);
        DataParallel parallel(net, job, {.synchrony = second});
        if (!parallel.replicas().synchrony().may_differ() && !first.starts_with("synchronous") &&
            !first.starts_with("robust"))
          replica::average_optimizers({optimizer.get()}, job.world());
        train(parallel, 7, 14);
        by_hand[SerialWorld::at(job.rank())] = flat(*net);
      });
      for (std::size_t r = 0; r < 3; ++r)
        EXPECT_TRUE(switched.replicas[r].equal(by_hand[r])) << first << " then " << second;
    }
  }
}

TEST(Strategies, ConsensusHasEqualBitsOnAllRanksAndGivesTheReplicaBack) {
  for (const std::string& text : all_texts()) {
    if (text.starts_with("async")) continue;
    SameEverywhere same;
    const SharedTask task{.ranks = 3, .steps = 5};
    train_on_ranks(task, text,
                   [&](DataParallel& parallel, torch::optim::Optimizer& optimizer, int step) {
                     const auto& own = optimizer.param_groups()[0].params();
                     std::vector<at::Tensor> before;
                     for (const at::Tensor& one : own) before.push_back(one.detach().clone());
                     {
                       const auto shared = parallel.consensus();
                       same.tell(c10::str(text, " ", step), own);
                     }
                     for (std::size_t i = 0; i < own.size(); ++i)
                       EXPECT_TRUE(own[i].equal(before[i])) << text;
                   });
  }
}

// In 24 steps, whole periods of each.
TEST(Strategies, BringTheBytesThatTheirTrafficSays) {
  const SharedTask task{.ranks = 4, .steps = 24, .tells_weights = false};
  for (const char* text : {"synchronous", "none", "local_sgd:period=4", "block_momentum:period=6",
                           "admm:period=3", "gossip", "gossip:graph=one_peer",
                           "gossip:graph=exponential,order=atc", "robust:rule=median"}) {
    const auto choice = strategy::parse_strategy(text);
    ASSERT_TRUE(choice) << text;
    const Trained trained = train_on_ranks(task, text);
    const auto elements = static_cast<double>(trained.replicas[0].numel());
    double expected = 0;
    for (const strategy::Traffic& one :
         choice.value().strategy.traffic(choice.value().settings, {elements, task.ranks}))
      expected += 8 * one.elements * task.steps / one.every;
    for (const StepReport& report : trained.reports)
      EXPECT_DOUBLE_EQ(report.exchange.bytes, expected) << text;
  }
}

TEST(Strategies, RefuseWhatDoesNotFitByName) {
  const auto refusal = [](const DataParallelOptions& options, int ranks = 2) {
    std::string told;
    try {
      run_ranks(ranks, [&](Job& job) {
        TaskNet net("linear");
        DataParallel parallel(net, job, options);
      });
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::misuse) << error.what();
      told = error.what();
    }
    return told;
  };
  EXPECT_THAT(refusal({.synchrony = "locl_sgd"}),
              AllOf(HasSubstr("'locl_sgd'"), HasSubstr("gossip"), HasSubstr("local_sgd?")));
  EXPECT_THAT(refusal({.synchrony = "local_sgd:perod=3"}),
              AllOf(HasSubstr("perod"), HasSubstr("period")));
  EXPECT_THAT(refusal({.synchrony = "local_sgd:period=0"}), HasSubstr("from 1 to"));
  EXPECT_THAT(refusal({.synchrony = "gossip:graph=rung"}), HasSubstr("rung"));
  EXPECT_THAT(refusal({.synchrony = "gossip:graph=torus"}, 3), HasSubstr("torus"));
  EXPECT_THAT(refusal({.synchrony = "local_sgd", .compression = "fp16"}),
              AllOf(HasSubstr("local_sgd"), HasSubstr("compression")));
  EXPECT_THAT(refusal({.synchrony = "elastic", .schedule = "priority"}), HasSubstr("schedule"));
}

TEST(Strategies, GoOnAsTheyWereAfterAChangeThatIsRefused) {
  const SharedTask task{.ranks = 2, .steps = 12};
  const Trained undisturbed = train_on_ranks(task, "elastic:period=2");
  const Trained refused =
      train_on_ranks(task, "elastic:period=2", [](DataParallel& parallel, auto&, int step) {
        if (step != 5) return;
        EXPECT_THAT(misuse_of([&] { parallel.synchrony("robust:rule=krum,faulty=4"); }),
                    HasSubstr("krum"));
        EXPECT_THAT(misuse_of([&] { parallel.synchrony("bsp"); }), HasSubstr("'bsp'"));
      });
  for (std::size_t r = 0; r < 2; ++r)
    EXPECT_TRUE(refused.replicas[r].equal(undisturbed.replicas[r]));
}

TEST(Strategies, RefuseTextsThatDifferBetweenRanks) {
  EXPECT_THROW(run_ranks(2,
                         [](Job& job) {
                           TaskNet net("linear");
                           DataParallel parallel(
                               net, job, {.synchrony = job.rank() == 0 ? "local_sgd" : "elastic"});
                         }),
               Error);
}

TEST(Strategies, ThatMoveParametersRefuseSynchronizeAndNameTheRemedy) {
  run_ranks(2, [](Job& job) {
    TaskNet net("linear");
    DataParallel parallel(net, job, {.synchrony = "local_sgd"});
    net.loss(samples(1, 4)).backward();
    EXPECT_THAT(misuse_of([&] { parallel.synchronize(); }), HasSubstr("step(optimizer)"));
  });
}

TEST(Strategies, SeeAnOptimizerThatSteppedByItself) {
  run_ranks(2, [](Job& job) {
    TaskNet net("linear");
    DataParallel parallel(net, job, {.synchrony = "local_sgd"});
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    net.loss(samples(1, 4)).backward();
    optimizer.step();
    EXPECT_THAT(misuse_of([&] { net.loss(samples(2, 4)).backward(); }),
                HasSubstr("parallel.step(optimizer)"));
  });
}

}  // namespace
}  // namespace paceline
