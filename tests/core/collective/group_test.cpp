// What a group does between its operations, and how it ends. Mismatches and missing ranks:
// communicator_mismatch_test.cpp.
#include "paceline/core/collective/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "tests/core/collective/worlds.h"

namespace paceline::collective::testing {
namespace {

using ::testing::HasSubstr;

TEST(Group, EndsInPeaceWhenAllItsWorkIsDone) {
  for (const auto& options : {kShared, kTcp}) {
    for (int round = 0; round < 20; ++round) {
      run_ranks(4, options, [](Job& job) {
        std::vector<float> values(3000, 1);
        job.world().all_reduce(buffer_of(values)).wait();
        EXPECT_EQ(values[0], 4);
      });  // each rank leaves when it is done; the others still read what it sent
    }
  }
}

TEST(Group, ThatEndsWithWorkInFlightTellsTheOthersWho) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(3, options, [](Job& job) {
      // The buffer lives as long as its operation, also on the rank that unwinds.
      const auto held = std::make_shared<std::vector<float>>(3000, 1.0F);
      std::vector<float>& values = *held;
      const auto failure = failure_of([&] {  // thrown by the call already where rank 1 was quick
        const Work work = job.rank() == 0 ? job.world().recv(buffer_of(values), 1)
                                          : job.world().all_reduce(buffer_of(values));
        work.keep(held);
        if (job.rank() != 1) work.wait(Deadline::in(5s));
      });
      if (job.rank() == 1) return;
      EXPECT_TRUE(failure.fault == Fault::cancelled || failure.fault == Fault::peer_lost)
          << failure.what;
      EXPECT_EQ(failure.ranks, std::vector{1}) << failure.what;
    });
  }
}

TEST(Group, AFailureIsTheCauseOfAllThatFollows) {
  run_ranks(2, [](Job& job) {
    std::vector<float> values(30);
    std::vector<Work> works;
    if (job.rank() == 0) works.push_back(job.world().barrier());
    Failure first = failure_of([&] {  // thrown here already when the other rank was quicker
      for (int i = 0; i < 5; ++i) works.push_back(job.world().all_reduce(buffer_of(values)));
      works.push_back(job.world().recv(buffer_of(values), 1 - job.rank()));
      works.front().wait(Deadline::in(5s));
    });
    EXPECT_EQ(first.fault, Fault::mismatch);
    for (const Work& work : works)
      EXPECT_EQ(failure_of([&] { work.wait(Deadline::in(5s)); }), first);
    EXPECT_EQ(failure_of([&] { job.world().send(const_buffer_of(values), 0).wait(); }), first);
  });
}

TEST(Group, CountsTheTimeInFlightAndWaited) {
  std::atomic<bool> waited = false;
  run_ranks(2, [&waited](Job& job) {
    if (job.rank() == 1) {
      while (!waited) std::this_thread::yield();
      job.world().barrier().wait();
      return;
    }
    const Work work = job.world().barrier();
    (void)failure_of([&] { work.wait(Deadline::in(30ms)); });
    const Traffic busy = job.world().traffic();
    waited = true;
    EXPECT_GE(busy.in_flight, 30ms);
    EXPECT_GE(busy.waited, 30ms);
    work.wait();
    const Traffic done = job.world().traffic();
    EXPECT_EQ(job.world().traffic().in_flight, done.in_flight) << "nothing is in flight";
  });
}

TEST(Group, ASendThatIsDoneIsNotInFlight) {
  run_ranks(2, [](Job& job) {
    std::vector<float> values(10, 5);
    if (job.rank() == 0) {
      job.world().send(const_buffer_of(values), 1).wait();
      const Traffic before = job.world().traffic();
      EXPECT_EQ(job.world().traffic().in_flight, before.in_flight);
    }
    job.world().barrier().wait();
    if (job.rank() == 1) job.world().recv(buffer_of(values), 0).wait();
  });
}

}  // namespace
}  // namespace paceline::collective::testing
