// Replicas that differ when a training ends are told of.
#include "paceline/torch/replica/equal/told_replicas.h"

#include <atomic>

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

// Twenty steps, in which one element of rank `broken` is changed before step 11; -1: of none.
void train_twenty_steps(Job& job, Net& net, DataParallel& parallel, int broken) {
  auto optimizer = sgd(net);
  for (int step = 1; step <= 20; ++step) {
    if (step == 11 && job.rank() == broken)
      static_cast<double*>(net.second->weight.mutable_data_ptr())[7] += 1e-9;
    optimizer.zero_grad();
    loss_of(net, samples(step, 4)).backward();
    parallel.step(optimizer);
  }
}

TEST(ToldReplicas, ADriftInAShortRunIsRefusedByFinishAndConsensusAndGathered) {
  const std::vector<std::function<void(DataParallel&)>> ends = {
      [](DataParallel& parallel) { parallel.finish(); },
      [](DataParallel& parallel) { const auto held = parallel.consensus(); },
      [](DataParallel& parallel) { const auto held = parallel.gathered(); }};
  for (const auto& end : ends) {
    std::atomic<int> refused = 0;
    run_ranks(3, [&](Job& job) {
      Net net;
      DataParallel parallel(net, job);
      train_twenty_steps(job, net, parallel, 2);
      job.world().barrier().wait();
      try {
        end(parallel);
      } catch (const Error& error) {
        ++refused;
        EXPECT_EQ(error.fault(), Fault::mismatch);
        EXPECT_EQ(error.failure().ranks, std::vector<int>{2});
        EXPECT_THAT(error.what(), AllOf(HasSubstr("after step 20: rank 2 differs from ranks 0, 1"),
                                        HasSubstr("'second.weight'")));
        EXPECT_THROW(parallel.synchronize(), Error) << "it is over for good";
      }
      job.world().barrier().wait();
    });
    EXPECT_GE(refused, 1) << "the last one to come has heard the others";
  }
}

TEST(ToldReplicas, ADriftFailsTheProcessAtTheEndOfATrainingThatNeverAsked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto train = [](int broken, int code) {
    run_ranks(2, [&](Job& job) {
      Net net;
      DataParallel parallel(net, job);
      train_twenty_steps(job, net, parallel, broken);
    });
    std::exit(code);
  };
  const auto told = HasSubstr("the replicas are no longer equal after step 20");
  EXPECT_EXIT(train(-1, 0), testing::ExitedWithCode(0), testing::Not(told));
  EXPECT_EXIT(train(1, 0), testing::ExitedWithCode(1), told);
  EXPECT_EXIT(train(1, 3), testing::ExitedWithCode(3), told) << "what the program says counts";
}

TEST(ToldReplicas, ARankThatFinishesAloneGoesOnAndTheOthersDoToo) {
  run_ranks(2, [](Job& job) {
    Net net;
    DataParallel parallel(net, job);
    auto optimizer = sgd(net);
    for (int step = 1; step <= 6; ++step) {
      optimizer.zero_grad();
      loss_of(net, samples(step, 4)).backward();
      parallel.step(optimizer);
      if (job.rank() == 1 && step == 3) parallel.finish();
    }
    parallel.finish();
  });
}

// A program may do with its model what it likes when the training is over.
TEST(ToldReplicas, AModelThatOneRankChangesAfterTheTrainingIsNotToldOf) {
  testing::internal::CaptureStderr();
  run_ranks(2, [](Job& job) {
    Net net;
    DataParallel parallel(net, job);
    train_twenty_steps(job, net, parallel, -1);
    if (job.rank() == 0) net.to(at::kFloat);
    const at::NoGradGuard no_grad;
    if (job.rank() == 1) net.last->weight.zero_();
  });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace paceline
