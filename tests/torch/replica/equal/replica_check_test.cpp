// Replicas that drifted apart are found and named.
#include "paceline/torch/replica/equal/replica_check.h"

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

// Trains until a rank throws; on `broken` one bit of one parameter flips before step 4.
std::vector<Failure> failures_of(int ranks, int broken, int every) {
  std::mutex mutex;
  std::vector<Failure> failures;
  run_ranks(ranks, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, {.check_replicas_every = every});
    auto optimizer = sgd(net);
    try {
      for (int step = 1; step <= 9; ++step) {
        if (step == 4 && job.rank() == broken) {
          auto* bits = static_cast<std::uint64_t*>(net.second->weight.mutable_data_ptr());
          bits[7] ^= 1;
        }
        optimizer.zero_grad();
        loss_of(net, samples(step, 4)).backward();
        parallel.step(optimizer);
      }
    } catch (const Error& error) {
      EXPECT_EQ(parallel.last_step().step, 5);
      EXPECT_THROW(parallel.synchronize(), Error) << "it is over for good";
      const std::lock_guard lock(mutex);
      failures.push_back(error.failure());
    }
  });
  return failures;
}

TEST(ReplicaCheck, NamesTheRankThatDiffersFromTheOthersAndTheFirstParameter) {
  const auto failures = failures_of(3, 2, 6);
  ASSERT_EQ(failures.size(), 3U) << "every rank is told";
  for (const Failure& failure : failures) {
    EXPECT_EQ(failure.fault, Fault::mismatch);
    EXPECT_EQ(failure.ranks, std::vector<int>{2});
    EXPECT_THAT(failure.what, AllOf(HasSubstr("before step 6: rank 2 differs from ranks 0, 1"),
                                    HasSubstr("'second.weight'")));
  }
}

TEST(ReplicaCheck, OfTwoSaysThatTheyDisagree) {
  const auto failures = failures_of(2, 0, 6);
  ASSERT_EQ(failures.size(), 2U);
  for (const Failure& failure : failures) {
    EXPECT_EQ(failure.ranks, (std::vector<int>{0, 1}));
    EXPECT_THAT(failure.what,
                AllOf(HasSubstr("ranks 0, 1 disagree"), HasSubstr("'second.weight'")));
  }
}

TEST(ReplicaCheck, IsSilentWhereReplicasAreEqualOrNobodyAsked) {
  EXPECT_TRUE(failures_of(3, -1, 1).empty());
  EXPECT_TRUE(failures_of(3, 2, 0).empty());
}

// Rank 0 has sent gradients that rank 1, which does not use the side branch, sends only at the end.
TEST(ReplicaCheck, DoesNotMindRanksThatUseDifferentParameters) {
  run_ranks(2, [&](Job& job) {
    Net net;
    auto options = kSmallBuckets;
    options.check_replicas_every = 2;
    DataParallel parallel(net, job, options);
    auto optimizer = sgd(net);
    for (int step = 1; step <= 5; ++step) {
      optimizer.zero_grad();
      loss_of(net, samples(step, 4), job.rank() == 0).backward();
      EXPECT_NO_THROW(parallel.step(optimizer)) << "step " << step;
    }
  });
}

TEST(ReplicaCheck, DoesNotMindTheShadowsOfAJoin) {
  run_ranks(2, [&](Job& job) {
    Net net;
    auto options = kSmallBuckets;
    options.check_replicas_every = 2;
    DataParallel parallel(net, job, options);
    auto optimizer = sgd(net);
    const std::vector<int> loader(job.rank() == 0 ? 1U : 5U);
    const auto train = [&] {
      for (auto turn : parallel.join(loader)) {
        optimizer.zero_grad();
        if (turn) loss_of(net, samples(job.rank(), 4)).backward();
        parallel.step(optimizer);
      }
    };
    EXPECT_NO_THROW(train());
  });
}

TEST(ReplicaCheck, LooksAfterTheFirstStepAndAtFrozenParameters) {
  for (const bool frozen : {false, true}) {
    std::mutex mutex;
    int told = 0;
    run_ranks(2, [&](Job& job) {
      Net net;
      if (frozen) net.second->weight.requires_grad_(false);
      DataParallel parallel(net, job);  // compares every 100 steps
      auto optimizer = sgd(net);
      for (int step = 1; step <= 3; ++step) {
        optimizer.zero_grad();
        loss_of(net, samples(step, 4)).backward();
        try {
          parallel.step(optimizer);
        } catch (const Error& error) {
          EXPECT_EQ(error.fault(), Fault::mismatch);
          EXPECT_THAT(error.what(),
                      AllOf(HasSubstr("before step 2"), HasSubstr("'second.weight'")));
          const std::lock_guard lock(mutex);
          ++told;
          return;
        }
        auto* bits = static_cast<std::uint64_t*>(net.second->weight.mutable_data_ptr());
        if (job.rank() == 1) bits[7] ^= 1;
      }
    });
    EXPECT_EQ(told, 2) << (frozen ? "frozen" : "trained");
  }
}

}  // namespace
}  // namespace paceline
