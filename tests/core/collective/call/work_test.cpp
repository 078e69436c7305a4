#include "paceline/core/collective/call/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "paceline/core/collective/call/work_state.h"
#include "tests/core/collective/worlds.h"

namespace paceline::collective::testing {
namespace {

using ::testing::HasSubstr;

TEST(Work, OfNothingIsDone) {
  const Work nothing;
  EXPECT_TRUE(nothing.done());
  nothing.wait();
  int calls = 0;
  nothing.on_done([&](const Result<>& result) { calls += result.has_value() ? 1 : 0; });
  EXPECT_EQ(calls, 1);
  nothing.keep(3);
  EXPECT_EQ(nothing.total_weight(), 0);
  EXPECT_TRUE(nothing.note(0).empty());
}

// A work that the communication thread has ended before its caller waits for it.
class WorkOfAnotherThread : public ::testing::Test {
 protected:
  void SetUp() override {
    const Deadline deadline = Deadline::in(20s);
    do std::this_thread::sleep_for(10ms);
    while (callers_drive() && !deadline.passed());
  }
  // Whether what a caller posts is done on its own thread.
  bool callers_drive() {
    std::atomic<std::thread::id> driver = {};
    reactor_->post([&driver] { driver = std::this_thread::get_id(); });
    while (driver.load() == std::thread::id()) std::this_thread::yield();
    return driver.load() == std::this_thread::get_id();
  }
  void wait_after(std::chrono::microseconds pause) {
    const auto state = std::make_shared<Work::State>(reactor_, waited_);
    reactor_->post([state] { state->finish(std::nullopt); });
    while (!state->done()) std::this_thread::yield();
    std::this_thread::sleep_for(pause);
    state->wait({});
  }

  const std::shared_ptr<transport::Reactor> reactor_ = std::make_shared<transport::Reactor>();
  const std::shared_ptr<std::atomic<std::int64_t>> waited_ =
      std::make_shared<std::atomic<std::int64_t>>(0);
};

TEST_F(WorkOfAnotherThread, WhoWaitsAtOnceDrivesFromThenOn) {
  const Deadline deadline = Deadline::in(20s);
  do wait_after(0us);
  while (!callers_drive() && !deadline.passed());
  EXPECT_FALSE(deadline.passed());
}

TEST_F(WorkOfAnotherThread, WhoComputesMeanwhileLeavesTheDrivingToIt) {
  for (int i = 0; i < 20; ++i) {
    wait_after(1ms);
    EXPECT_FALSE(callers_drive());
  }
}

// A stream that still waited then would hold back a caller who sees that the work is done.
TEST_F(WorkOfAnotherThread, IsDoneOnceNoStreamWaitsForIt) {
  const auto state = std::make_shared<Work::State>(reactor_, waited_);
  bool was_done = true;
  state->runs_on_device([](void*) { return Result<>(Done{}); }, [&] { was_done = state->done(); });
  reactor_->post([state] { state->finish(std::nullopt); });
  state->wait({});
  EXPECT_FALSE(was_done);
}

TEST(Work, AWaitThatRunsOutLeavesTheOperationRunning) {
  for (const auto& options : {kShared, kTcp}) {
    std::atomic<bool> late = false;
    run_ranks(2, options, [&late](Job& job) {
      if (job.rank() == 1) {
        while (!late) std::this_thread::yield();
        job.world().barrier().wait();
        return;
      }
      const Work work = job.world().barrier();
      const auto failure = failure_of([&] { work.wait(Deadline::in(20ms)); });
      EXPECT_EQ(failure.fault, Fault::timed_out);
      EXPECT_THAT(failure.what,
                  HasSubstr("barrier is not done at the deadline of this wait; it goes on"));
      EXPECT_FALSE(work.done());
      late = true;
      work.wait(Deadline::in(5s));
      EXPECT_TRUE(work.done());
    });
  }
}

TEST(Work, CallbacksRunOnceWithTheResultAndWhatIsKeptIsFreedThen) {
  run_ranks(2, [](Job& job) {
    std::atomic<int> calls = 0;
    auto held = std::make_shared<int>(1);
    {
      const Work work = job.world().barrier();
      const Work copy = work;
      work.on_done([&](const Result<>& result) { calls += result.has_value() ? 1 : 100; });
      copy.on_done([&](const Result<>& result) { calls += result.has_value() ? 1 : 100; });
      work.keep(held);
      copy.wait();
      work.on_done([&](const Result<>& result) { calls += result.has_value() ? 1 : 100; });
      copy.keep(held);  // done: it is not held any more
      const Deadline deadline = Deadline::in(5s);
      while ((calls < 3 || held.use_count() > 1) && !deadline.passed()) std::this_thread::yield();
      EXPECT_EQ(calls, 3);
      EXPECT_EQ(held.use_count(), 1);
    }
    job.world().barrier().wait();
    EXPECT_EQ(calls, 3);
  });
}

TEST(Work, ACallbackThatThrowsHarmsNobody) {
  run_ranks(2, [](Job& job) {
    for (int i = 0; i < 10; ++i) {
      std::atomic<int> calls = 0;
      const Work work = job.world().barrier();
      try {
        work.on_done([](const Result<>&) { throw std::runtime_error("out of a callback"); });
      } catch (const std::runtime_error&) {  // it was done already, so its caller hears of it
      }
      work.on_done([&](const Result<>&) { ++calls; });
      EXPECT_NO_THROW(work.wait(Deadline::in(5s)));
      const Deadline deadline = Deadline::in(5s);
      while (calls < 1 && !deadline.passed()) std::this_thread::yield();
      if (!work.done()) return;
    }
  });
}

// A call may be over at once, go over a board or by frames, and be carried by a program.
TEST(Work, TheTotalWeightIsTheNumberOfRanksThatGaveNoneHoweverTheCallWasCarried) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(2, options, [](Job& job) {
      for (const std::size_t count : {1, 100, 100'000, 1'000'000}) {
        std::vector<float> values(count);
        for (int i = 0; i < 20; ++i) {
          const Work unnamed = job.world().all_reduce(buffer_of(values));
          unnamed.wait();
          ASSERT_EQ(unnamed.total_weight(), 2) << count << ", call " << i;
        }
        const Work named = job.world().all_reduce(buffer_of(values), {.algorithm = "direct"});
        named.wait();
        EXPECT_EQ(named.total_weight(), 2);
      }
      const Work barrier = job.world().barrier();
      barrier.wait();
      EXPECT_EQ(barrier.total_weight(), 2);
    });
  }
}

// The callback runs while the driver still ends the group, and holds it up there.
TEST(Work, TheFailureOfADroppedOneIsThrownByTheNextCall) {
  run_ranks(2, [](Job& job) {
    std::vector<float> values(4);
    std::atomic<int> failed = 0;
    std::atomic<bool> calls = false, is_over = false;
    const auto caller = std::this_thread::get_id();
    {
      const Work work = job.rank() == 0 ? job.world().all_reduce(buffer_of(values))
                                        : job.world().broadcast(buffer_of(values));
      work.on_done([&](const Result<>& result) {
        failed = !result.has_value() && result.error().fault == Fault::mismatch ? 1 : 2;
        while (!calls && std::this_thread::get_id() != caller) std::this_thread::yield();
        for (const Deadline moment = Deadline::in(20ms); !moment.passed();)
          std::this_thread::yield();
        is_over = true;
      });
    }
    const Deadline deadline = Deadline::in(5s);
    while (failed == 0 && !deadline.passed()) std::this_thread::yield();
    EXPECT_EQ(failed, 1);
    calls = true;
    const Failure failure = failure_of([&] { (void)job.world().barrier(); });
    while (!is_over) std::this_thread::yield();
    EXPECT_EQ(failure.fault, Fault::mismatch) << failure.what;
  });
}

TEST(Work, WaitingInsideACallbackIsRefused) {
  // Rank 1 joins the first barrier when rank 0's callback is in place, and the second when it has
  // run: so there is something to wait for.
  std::atomic<bool> in_place = false, has_run = false;
  run_ranks(2, [&](Job& job) {
    if (job.rank() == 1) {
      while (!in_place) std::this_thread::yield();
      job.world().barrier().wait();
      while (!has_run) std::this_thread::yield();
      job.world().barrier().wait();
      return;
    }
    std::optional<Failure> failure;
    const Work first = job.world().barrier(), second = job.world().barrier();
    first.on_done([&](const Result<>&) {
      failure = failure_of([&] { second.wait(); });
      has_run = true;
    });
    in_place = true;
    second.wait();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->fault, Fault::misuse) << failure->what;
    EXPECT_THAT(failure->what, HasSubstr("callback"));
  });
}

TEST(Work, OutlivesItsJob) {
  std::vector<Job> jobs = make_local_world(2);
  std::vector<float> values(4, 1), others(4, 1);
  Work work = jobs[0].world().all_reduce(buffer_of(values));
  const Work never = jobs[1].world().all_reduce(buffer_of(others));
  never.wait(Deadline::in(5s));
  work.wait(Deadline::in(5s));
  const Work cancelled = jobs[0].world().barrier();
  jobs.clear();
  work.wait();
  EXPECT_TRUE(cancelled.done());
  EXPECT_EQ(failure_of([&] { cancelled.wait(); }).fault, Fault::cancelled);
}

TEST(Work, SeveralAsOneAreDoneWhenAllAre) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(3, options, [](Job& job) {
      std::vector<float> sums(5000, 1), in(10), out(10, static_cast<float>(job.rank()));
      const int next = (job.rank() + 1) % 3, previous = (job.rank() + 2) % 3;
      // A torch.distributed back end does this: it starts all calls of a batch, and one Work stands
      // for them.
      const Work batch = Work::all_of({job.world().recv(buffer_of(in), previous),
                                       job.world().send(const_buffer_of(out), next),
                                       job.world().all_reduce(buffer_of(sums)), Work()});
      std::atomic<int> calls = 0;
      batch.on_done([&](const Result<>& result) { calls += result.has_value() ? 1 : 100; });
      batch.wait();
      EXPECT_EQ(sums[4999], 3);
      EXPECT_EQ(in[9], static_cast<float>(previous));
      job.world().barrier().wait();
      EXPECT_EQ(calls, 1);
      const Work done = Work::all_of({batch, batch});
      done.wait();
    });
  }
  EXPECT_TRUE(Work::all_of({}).done());
  EXPECT_TRUE(Work::all_of({Work(), Work()}).done());
}

TEST(Work, SeveralAsOneFailWithTheFirstFailureAmongThem) {
  run_ranks(2, [](Job& job) {
    std::vector<float> values(10);
    std::vector<Work> parts;
    const auto failure = failure_of([&] {
      parts.push_back(job.world().barrier());
      parts.push_back(job.rank() == 0 ? job.world().barrier()
                                      : job.world().all_reduce(buffer_of(values)));
      Work::all_of(parts).wait();
    });
    EXPECT_EQ(failure.fault, Fault::mismatch) << failure.what;
  });
}

}  // namespace
}  // namespace paceline::collective::testing
