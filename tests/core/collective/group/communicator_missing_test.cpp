// Ranks that do not come: ranks that wait for them learn which ones are missing, and in which
// operation. Covers paceline/core/collective/group/group_ends.cpp and
// paceline/core/collective/group/stall_watch.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <stdexcept>

#include "tests/core/collective/worlds.h"

namespace paceline::collective::testing {
namespace {

using ::testing::HasSubstr;

TEST(CommunicatorMissing, ARankThatLeavesIsNamed) {
  for_every_odd_one([](const LocalWorldOptions& options, int ranks, int leaver) {
    run_ranks(ranks, options, [leaver](Job& job) {
      std::vector<float> values(2000, 1);
      const auto failure = failure_of([&] {
        job.world().all_reduce(buffer_of(values)).wait();
        if (job.rank() != leaver) job.world().all_reduce(buffer_of(values)).wait();
      });
      if (job.rank() == leaver) return;
      EXPECT_EQ(failure.fault, Fault::peer_lost) << failure.what;
      EXPECT_EQ(failure.ranks, std::vector{leaver}) << failure.what;
      EXPECT_THAT(failure.what, HasSubstr(fmt::format("rank {} has left the job", leaver)));
      EXPECT_THAT(failure.what, HasSubstr("all_reduce f32[2000] sum by "));
      EXPECT_THAT(failure.what, HasSubstr("operation 2 of group 'world'"));
    });
  });
}

// Rank 2 calls only once rank 0 has failed: so rank 1's operation is in flight when rank 1 ends.
TEST(CommunicatorMissing, ARankThatEndsWithWorkInFlightIsNamed) {
  for (const auto& options : {kShared, kTcp}) {
    std::atomic<bool> failed = false;
    run_ranks(3, options, [&](Job& job) {
      const auto held = std::make_shared<std::vector<float>>(2000, 1.0F);
      if (job.rank() == 2) {
        while (!failed) std::this_thread::yield();
      }
      const auto failure = failure_of([&] {
        const Work work = job.world().all_reduce(buffer_of(*held));
        work.keep(held);
        if (job.rank() != 1) work.wait(Deadline::in(20s));
      });
      if (job.rank() == 1) return;  // unwinds with its Work in flight
      failed = true;
      EXPECT_NE(failure.fault, Fault::timed_out) << failure.what;
      EXPECT_EQ(failure.ranks, std::vector{1}) << failure.what;
    });
  }
}

// Rank 1's program catches the exception, and keeps the Job. Paceline knows the text of its own.
void expect_told_of_an_exception(const LocalWorldOptions& options, bool by_paceline,
                                 const char* text) {
  std::atomic<int> told = 0;
  run_ranks(3, options, [&](Job& job) {
    job.world().barrier().wait();
    std::vector<float> values(1);
    Failure failure;
    const auto leave = [&] {
      const auto group = job.world().split(0);
      if (job.rank() != 1) group->barrier().wait(Deadline::in(20s));
      const Work called = group->recv(buffer_of(values), 0);
      if (by_paceline) throw_misuse("something else went wrong");
      throw std::runtime_error("another library's exception");
    };
    try {
      failure = failure_of(leave);
    } catch (const std::runtime_error&) {  // rank 1's own
    }
    ++told;
    while (told < 3) std::this_thread::yield();
    if (job.rank() == 1) return;
    EXPECT_EQ(failure.ranks, std::vector{1}) << failure.what;
    EXPECT_THAT(failure.what, HasSubstr("rank 1 left by an exception, which its program caught"));
    EXPECT_THAT(failure.what, HasSubstr(text));
  });
}

TEST(CommunicatorMissing, AnExceptionThatUnwindsAGroupIsToldThoughTheJobLivesOn) {
  for (const auto& options : {kShared, kTcp}) {
    expect_told_of_an_exception(options, true, "caught: something else went wrong");
    expect_told_of_an_exception(options, false, "its text is in the log of rank 1");
  }
}

// Frees memory that a call may use.
struct Owner {
  Communicator& group;
  std::vector<float> values = std::vector<float>(1000);
  ~Owner() { group.unwind(); }
};

TEST(CommunicatorMissing, WhoLosesBuffersByAnExceptionEndsTheCallsThatUseThem) {
  for (const auto& options : {kShared, kTcp}) {
    std::atomic<int> told = 0;
    run_ranks(2, options, [&](Job& job) {
      Communicator& world = job.world();
      { const Owner idle{world}; }
      world.barrier().wait();
      Work sends, receives;
      const auto failure = failure_of([&] {
        if (job.rank() == 0) world.barrier().wait(Deadline::in(20s));
        Owner owner{world};
        sends = world.send(const_buffer_of(owner.values), 0);
        receives = world.recv(buffer_of(owner.values), 0);
        throw_misuse("something else went wrong");
      });
      if (job.rank() == 1) {
        EXPECT_TRUE(sends.done());
        EXPECT_TRUE(receives.done());
      }
      const auto later = failure_of([&] { world.barrier().wait(); });
      const std::string left = "rank 1 left by an exception, which its program caught: ";
      EXPECT_EQ(later.what, left + "something else went wrong");
      if (job.rank() == 0) {
        EXPECT_THAT(failure.what, HasSubstr(later.what));
      }
      ++told;
      while (told < 2) std::this_thread::yield();
    });
  }
}

// Rank 1 has called, and does nothing more: what another group's call sets off holds up its driver.
TEST(CommunicatorMissing, TheDeadlineNamesWhoHasCalledAndDoesNotGoOn) {
  for (const auto& options : {kShared, kTcp}) {
    std::atomic<bool> ready = false, told = false;
    run_ranks(2, options, [&](Job& job) {
      const auto other = job.world().split(0);
      std::vector<float> values(1 << 20, 1);
      const auto failure = failure_of([&] {
        if (job.rank() == 1) {
          const Work called = job.world().all_reduce(buffer_of(values));
          other->barrier().on_done([&](const Result<>&) {
            while (!told) std::this_thread::yield();
          });
          ready = true;
          called.wait();
        } else {
          while (!ready) std::this_thread::yield();
          const Work first = other->barrier();
          job.world().all_reduce(buffer_of(values), {.within = 300ms}).wait();
        }
      });
      told = true;
      if (job.rank() == 1) return;
      EXPECT_EQ(failure.fault, Fault::timed_out) << failure.what;
      EXPECT_EQ(failure.ranks, std::vector{1}) << failure.what;
      EXPECT_THAT(failure.what, HasSubstr("data of rank 1, which has called it"));
    });
  }
}

TEST(CommunicatorMissing, TheDeadlineNamesWhoHasNotCalled) {
  for (const auto& options : {kShared, kTcp}) {
    std::atomic<int> failed = 0;
    std::latch has_called(1);
    run_ranks(4, options, [&](Job& job) {
      std::vector<float> values(2000, 1);
      if (job.rank() == 1 || job.rank() == 3) {
        while (failed < 2) std::this_thread::yield();
      }
      if (job.rank() == 0) has_called.wait();
      const auto begin = Clock::now();
      const auto failure = failure_of([&] {
        const Work work =
            job.world().all_reduce(buffer_of(values), {.within = job.rank() == 0 ? 500ms : 60s});
        if (job.rank() == 2) has_called.count_down();
        work.wait();
      });
      ++failed;
      EXPECT_EQ(failure.fault, Fault::timed_out) << failure.what;
      EXPECT_EQ(failure.ranks, (std::vector{1, 3})) << failure.what;
      EXPECT_THAT(failure.what, HasSubstr("ranks 1, 3, which have not called it"));
      EXPECT_THAT(failure.what, HasSubstr("operation 1 of group 'world'"));
      EXPECT_LT(Clock::now() - begin, 5s);
      EXPECT_EQ(values, std::vector<float>(2000, 1));
    });
  }
}

TEST(CommunicatorMissing, TheDeadlineOfACallThatWaitsBehindAnotherCounts) {
  std::atomic<bool> failed = false;
  run_ranks(2, [&failed](Job& job) {
    if (job.rank() == 1) {
      while (!failed) std::this_thread::yield();
      return;
    }
    std::vector<float> values(10);
    const Work first = job.world().barrier();
    const Work second = job.world().all_reduce(buffer_of(values), {.within = 50ms});
    const auto failure = failure_of([&] { second.wait(Deadline::in(5s)); });
    failed = true;
    EXPECT_EQ(failure.fault, Fault::timed_out);
    EXPECT_EQ(failure.ranks, std::vector{1}) << failure.what;
    EXPECT_THAT(failure.what, HasSubstr("all_reduce f32[10] sum"));
    EXPECT_THAT(failure.what, HasSubstr("barrier"));
  });
}

}  // namespace
}  // namespace paceline::collective::testing
