// Trainings with every synchrony are saved and resumed.
#include <csignal>
#include <latch>
#include <optional>

#include "paceline/torch/strategy/strategy.h"
#include "tests/support/nightly.h"
#include "tests/torch/checkpointing/small_run.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

// The digests of all replicas, by rank, after `steps`; saves after step 10.
std::vector<std::string> digests_of(const std::string& synchrony, const std::string& directory,
                                    int steps, bool resume, bool own_optimizers,
                                    const std::string& later = {}, int servers = 0, int ranks = 3) {
  std::vector<std::string> digests(static_cast<std::size_t>(ranks));
  run_ranks(ranks, {.servers = servers}, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    auto net = std::make_shared<TaskNet>("mlp");
    const SharedTask task;
    DataParallelOptions options{.synchrony = synchrony};
    if (own_optimizers)
      options.optimizer = [&](const at::Tensor& parameter) { return task.optimizer({parameter}); };
    DataParallel parallel(net, job, options);
    const auto optimizer = task.optimizer(net->parameters());
    std::optional<Checkpoints> checkpoints;
    if (!directory.empty()) {
      checkpoints.emplace(job, directory, CheckpointOptions{.every = 10, .resume = resume});
      checkpoints->add("parallel", parallel);
      checkpoints->add("model", net);
      if (!own_optimizers) checkpoints->add("optimizer", *optimizer);
    }
    for (int step = checkpoints ? static_cast<int>(checkpoints->resume()) : 0; step < steps;) {
      const auto batch = task.batch(job.rank(), step);
      parallel.weight(task.weight(job.rank(), step));
      net->zero_grad();
      const at::Tensor loss = net->loss(*batch);
      loss.backward();
      parallel.loss(loss.item<double>());
      if (own_optimizers) parallel.step();
      else parallel.step(*optimizer);
      if (step == 6 && !later.empty()) parallel.synchrony(later);
      ++step;
      if (checkpoints) checkpoints->save_if_due(step);
    }
    if (checkpoints) checkpoints->finish();
    parallel.finish();
    digests[static_cast<std::size_t>(job.rank())] = sha256_of(net->parameters());
  });
  return digests;
}

TEST(CheckpointsOfStrategies, GoOnBitwiseWhereTheyWereSaved) {
  for (const strategy::Strategy& one : strategy::strategies()) {
    if (one.on_servers) continue;
    std::string text(one.name);
    for (const Setting& setting : one.settings)
      if (setting.name == "period") text += ":period=4";
    if (text == "adacomm") text += ":start=4,interval=3";
    if (text == "push_sum") text += ":late=2";
    if (text == "robust") text += ":rule=clipping";
    if (text == "async_gossip") continue;  // no two runs of it have the same bits
    // Each strategy has one kind of optimizer by day, and both at night.
    for (const bool own_optimizers : {false, true}) {
      if (!test::is_nightly() && own_optimizers != (text.size() % 2 == 0)) continue;
      const TemporaryFolder folder;
      const std::string directory = (folder.path() / "run").string();
      const auto undisturbed = digests_of(text, {}, 17, false, own_optimizers);
      digests_of(text, directory, 12, false, own_optimizers);
      EXPECT_EQ(digests_of(text, directory, 17, true, own_optimizers), undisturbed) << text;
    }
  }
}

// The rule's state is saved in the order of the parameters, so the number of servers may change.
TEST(CheckpointsOfStrategies, OfServersGoOnBitwiseOnAnotherNumberOfThem) {
  for (const char* text : {"bsp", "ssp:staleness=0,update=worker"}) {
    for (const bool own_optimizers : {false, true}) {
      const TemporaryFolder folder;
      const std::string directory = (folder.path() / "run").string();
      const auto undisturbed = digests_of(text, {}, 17, false, own_optimizers, {}, 2);
      digests_of(text, directory, 12, false, own_optimizers, {}, 3);
      EXPECT_EQ(digests_of(text, directory, 17, true, own_optimizers, {}, 1), undisturbed) << text;
    }
  }
}

// No two runs of several ranks have the same bits. A rest changes nothing for one rank, except that
// under downpour it pushes what is accrued, so that only a run with the same save has its bits.
TEST(CheckpointsOfStrategies, OfServersThatWaitForNobodyGoOnBitwiseWithOneRank) {
  for (const std::string text :
       {"asp", "asp:update=worker", "staleness_aware", "staleness_aware:rate=paper,softsync=1",
        "dc_asgd", "dc_asgd:variant=adaptive", "elastic:centre=server,period=3",
        "elastic:centre=server,period=4,alpha=0.3", "admm:centre=server,period=3",
        "admm:centre=server,period=4,barrier=1,delay=2",
        "downpour:push=5,fetch=5,fetching=blocking", "downpour:push=4,fetch=3",
        "downpour:push=4,fetch=3,fetching=blocking"}) {
    for (const bool own_optimizers : {false, true}) {
      const TemporaryFolder folder;
      const std::string directory = (folder.path() / "run").string(),
                        saving = (folder.path() / "saving").string();
      const auto saved = digests_of(text, saving, 17, false, own_optimizers, {}, 2, 1);
      digests_of(text, directory, 12, false, own_optimizers, {}, 3, 1);
      EXPECT_EQ(digests_of(text, directory, 17, true, own_optimizers, {}, 1, 1), saved) << text;
      if (text.starts_with("downpour")) continue;
      EXPECT_EQ(digests_of(text, {}, 17, false, own_optimizers, {}, 2, 1), saved) << text;
    }
  }
}

// A save, or the end of the loop, finds the other ranks in their first step, where they wait.
TEST(CheckpointsOfStrategies, AreSavedInAWarmStartWhichTheyEnd) {
  for (const int steps : {12, 7}) {
    const TemporaryFolder folder;
    const std::string directory = (folder.path() / "run").string(),
                      text = "downpour:warm_start=1000";
    digests_of(text, directory, steps, false, false, {}, 2);
    if (steps < 10) continue;
    const auto resumed = digests_of(text, directory, 17, true, false, {}, 2);
    for (const std::string& one : resumed) EXPECT_EQ(one, resumed[0]);
  }
}

// A rank that stands still to save, or has ended its loop, holds up none of those that have to come.
TEST(CheckpointsOfStrategies, AreSavedWhereRanksWaitForSomeOfTheOthers) {
  for (const std::string text :
       {"admm:centre=server,period=1,barrier=3", "admm:centre=server,period=3,barrier=2,delay=2"}) {
    const TemporaryFolder folder;
    const std::string directory = (folder.path() / "run").string();
    digests_of(text, directory, 12, false, false, {}, 2);
    digests_of(text, directory, 33, true, false, {}, 1);
    digests_of(text, directory, 41, true, false, {}, 2, 2);
  }
}

TEST(CheckpointsOfStrategies, OfStepsThatCloseWithoutSomeRanksAreRefusedByName) {
  for (const char* text : {"backup_workers", "timeout"}) {
    const TemporaryFolder folder;
    run_ranks(2, {.servers = 1}, [&](Job& job) {
      if (job.role() == Role::server) return serve(job);
      TaskNet net("linear");
      DataParallel parallel(net, job, {.synchrony = text});
      Checkpoints checkpoints(job, (folder.path() / "run").string());
      checkpoints.add("parallel", parallel);
      checkpoints.add("model", net);
      EXPECT_THAT(misuse_of([&] { checkpoints.save_if_due(1); }),
                  AllOf(HasSubstr(text), HasSubstr("bsp, ssp, bounded_delay or asp")));
    });
  }
}

// No two of its runs have the same bits, but a save brings it to rest.
TEST(CheckpointsOfStrategies, KeepTheSumOfAllReplicasOfAsyncGossip) {
  const TemporaryFolder folder;
  const std::string directory = (folder.path() / "run").string();
  at::Tensor saved;
  for (const bool resume : {false, true}) {
    run_ranks(2, [&](Job& job) {
      auto net = std::make_shared<TaskNet>("mlp");
      const SharedTask task;
      DataParallel parallel(net, job, {.synchrony = "async_gossip"});
      const auto optimizer = task.optimizer(net->parameters());
      Checkpoints checkpoints(job, directory, {.resume = resume});
      checkpoints.add("model", net);
      checkpoints.add("optimizer", *optimizer);
      checkpoints.add("parallel", parallel);
      const std::int64_t first = checkpoints.resume();
      EXPECT_EQ(first, resume ? 9 : 0);
      for (int step = 0; !resume && step < 9; ++step) {
        net->zero_grad();
        net->loss(*task.batch(job.rank(), step)).backward();
        parallel.step(*optimizer);
      }
      if (!resume) {
        EXPECT_TRUE(checkpoints.save(9));
      }
      const auto shared = parallel.consensus();
      if (job.rank() != 0) return;
      if (!resume) saved = flat(*net);
      EXPECT_LE(difference(flat(*net), saved), 1e-14);
    });
  }
}

// One rank rests early, another is told to stop: all save together, and each goes on where it was.
TEST(CheckpointsOfStrategies, OfRanksThatWaitForNobodyHoldTheStepOfEach) {
  const TemporaryFolder folder;
  const std::string directory = (folder.path() / "run").string();
  constexpr int kRanks = 4;
  std::vector<std::int64_t> stopped_at(kRanks), resumed_at(kRanks);
  at::Tensor saved;
  std::latch rank_2_has_ended(1);
  for (const bool resume : {false, true}) {
    run_ranks(kRanks, [&](Job& job) {
      const auto rank = static_cast<std::size_t>(job.rank());
      auto net = std::make_shared<TaskNet>("mlp");
      const SharedTask task;
      DataParallel parallel(net, job, {.synchrony = "async_gossip"});
      const auto optimizer = task.optimizer(net->parameters());
      Checkpoints checkpoints(job, directory, {.every = 4, .resume = resume});
      checkpoints.add("model", net);
      checkpoints.add("optimizer", *optimizer);
      checkpoints.add("parallel", parallel);
      std::int64_t step = checkpoints.resume();
      resumed_at[rank] = step;
      for (; !resume && step < (rank == 2 ? 5 : 1000) && !checkpoints.stopping();) {
        net->zero_grad();
        net->loss(*task.batch(job.rank(), static_cast<int>(step))).backward();
        parallel.step(*optimizer);
        ++step;
        if (rank == 3 && step == 30) {
          rank_2_has_ended.wait();
          ::raise(SIGTERM);
        }
        checkpoints.save_if_due(step);
      }
      if (!resume) {
        if (rank == 2) rank_2_has_ended.count_down();
        checkpoints.wait_for_all_ranks();
        EXPECT_TRUE(checkpoints.stopping());
        EXPECT_EQ(checkpoints.finish(), 143);
        stopped_at[rank] = step;
      }
      const auto shared = parallel.consensus();
      if (rank != 0) return;
      if (!resume) saved = flat(*net);
      EXPECT_LE(difference(flat(*net), saved), 1e-14);
    });
  }
  EXPECT_EQ(stopped_at[2], 5);
  EXPECT_EQ(stopped_at[3], 30);
  EXPECT_EQ(resumed_at, stopped_at);
}

TEST(CheckpointsOfStrategies, GoOnWithTheSynchronyThatWasInForce) {
  const TemporaryFolder folder;
  for (const auto& [first, later] : {std::pair("synchronous", "elastic:period=2"),
                                     {"local_sgd:period=3", "synchronous"},
                                     {"local_sgd:period=3,after=4", ""}}) {
    const std::string directory = (folder.path() / c10::str(first, later)).string();
    const auto undisturbed = digests_of(first, {}, 17, false, false, later);
    digests_of(first, directory, 12, false, false, later);
    EXPECT_EQ(digests_of(first, directory, 17, true, false, later), undisturbed) << first << later;
  }
}

TEST(CheckpointsOfStrategies, RefuseATrainingThatBeganWithAnotherSynchrony) {
  const TemporaryFolder folder;
  const std::string directory = (folder.path() / "run").string();
  digests_of("local_sgd", directory, 10, false, false);
  EXPECT_THAT(misuse_of([&] { digests_of("gossip", directory, 11, true, false); }),
              AllOf(HasSubstr("local_sgd"), HasSubstr("gossip")));
}

}  // namespace
}  // namespace paceline
