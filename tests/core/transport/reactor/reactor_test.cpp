#include "paceline/core/transport/reactor/reactor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <stdexcept>

#include "paceline/core/base/result.h"

namespace paceline::transport {
namespace {

using namespace std::chrono_literals;

std::chrono::microseconds processor_time() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& t) {
    return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

// Waits without driving anything.
void wait_until(const std::function<bool()>& done) {
  const Deadline deadline = Deadline::in(20s);
  while (!done() && !deadline.passed()) std::this_thread::yield();
  EXPECT_TRUE(done());
}

TEST(Reactor, RunsPostsOfOneThreadInTheirOrder) {
  Reactor reactor;
  std::vector<int> ran;
  std::atomic<int> count = 0;
  for (int i = 0; i < 2000; ++i) {
    reactor.post([&, i] {
      ran.push_back(i);
      ++count;
    });
  }
  wait_until([&] { return count == 2000; });
  reactor.run([&] {
    for (int i = 0; i < 2000; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
  });
}

TEST(Reactor, RunsPostsOfManyThreadsOneAtATime) {
  Reactor reactor;
  int unguarded = 0;  // TSan and the sum see two at once
  std::atomic<int> count = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          if (i % 5 == 0) reactor.run([&] { ++unguarded; });
          else reactor.post([&] { ++unguarded; });
          ++count;
        }
      });
    }
  }
  reactor.run([&] { EXPECT_EQ(unguarded, 2000); });
}

TEST(Reactor, RunThrowsWhatTheTaskThrowsAndGoesOn) {
  Reactor reactor;
  EXPECT_THROW(reactor.run([] { throw std::runtime_error("x"); }), std::runtime_error);
  bool ran = false;
  reactor.run([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(Reactor, ATaskThatThrowsLosesNoBaton) {
  Reactor reactor;
  const Deadline deadline = Deadline::in(10s);
  bool thrown = false;
  while (!thrown && !deadline.passed()) {
    reactor.run([] {});  // a caller has the baton, so that it is free soon
    try {
      reactor.try_drive([] { throw std::runtime_error("x"); });
    } catch (const std::runtime_error&) {
      thrown = true;
    }
  }
  EXPECT_TRUE(thrown);
  std::atomic<bool> ran = false;
  reactor.post([&] { ran = true; });
  EXPECT_TRUE(reactor.drive_until([&] { return ran.load(); }, Deadline::in(5s)));
}

TEST(Reactor, TasksThatTasksPostRunToo) {
  Reactor reactor;
  std::atomic<int> depth = 0;
  std::function<void()> next = [&] {
    if (++depth < 100) reactor.post(next);
  };
  reactor.post(next);
  wait_until([&] { return depth == 100; });
  reactor.stop();
  depth = 0;
  reactor.post(next);  // only this thread drives now, and none comes after it
  EXPECT_EQ(depth, 100);
}

TEST(Reactor, OneThreadDrivesAtATimeAndKnowsIt) {
  Reactor reactor;
  EXPECT_FALSE(reactor.driven_by_this_thread());
  reactor.run([&] { EXPECT_TRUE(reactor.driven_by_this_thread()); });
  EXPECT_FALSE(reactor.driven_by_this_thread());
}

TEST(Reactor, ADeadlineThatPassesEndsTheWaitAndNothingElse) {
  Reactor reactor;
  const auto begin = Clock::now();
  EXPECT_FALSE(reactor.drive_until([] { return false; }, Deadline::in(20ms)));
  EXPECT_GE(Clock::now() - begin, 20ms);
  EXPECT_LT(Clock::now() - begin, 5s);
  EXPECT_TRUE(reactor.drive_until([] { return true; }, Deadline::in(0ms)));
  bool ran = false;
  reactor.run([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(Reactor, TimersOfItsPollerRunWhoeverDrives) {
  Reactor reactor;
  std::atomic<bool> idle_timer = false, driven_timer = false;
  reactor.run([&] { reactor.poller().after(1ms, [&] { idle_timer = true; }); });
  wait_until([&] { return idle_timer.load(); });
  reactor.run([&] { reactor.poller().after(1ms, [&] { driven_timer = true; }); });
  EXPECT_TRUE(reactor.drive_until([&] { return driven_timer.load(); }, Deadline::in(20s)));
}

TEST(Reactor, ManyThreadsWaitAtOnceAndEachIsWokenWhenItsTurnIsDone) {
  for (const bool share_cores : {false, true}) {
    Reactor reactor({.spin = 20us, .share_cores = share_cores});
    constexpr int kThreads = 4, kRounds = 200;
    std::array<std::atomic<int>, kThreads> turns = {};
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int round = 1; round <= kRounds; ++round) {
          // The driver makes it the next thread's turn.
          reactor.post([&, t] {
            ++turns[(t + 1) % kThreads];
            reactor.note_completion();
          });
          ASSERT_TRUE(
              reactor.drive_until([&, t, round] { return turns[t] >= round; }, Deadline::in(20s)))
              << round;
        }
      });
    }
    threads.clear();
    for (const auto& turn : turns) EXPECT_EQ(turn, kRounds);
  }
}

TEST(Reactor, ATaskPostedWhileOthersDriveIsDoneThoughTheyLeave) {
  Reactor reactor;
  std::atomic<bool> over = false;
  std::jthread comes_and_goes([&] {
    while (!over) reactor.drive_until([] { return false; }, Deadline::in(10us));
  });
  std::atomic<int> count = 0;
  for (int i = 0; i < 2000; ++i) {
    reactor.post([&] { ++count; });
    wait_until([&] { return count == i + 1; });
  }
  over = true;
}

TEST(Reactor, AWaiterTakesTheBatonWhenTheDriverLeaves) {
  Reactor reactor;
  std::atomic<bool> first_may_go = false, second_done = false, second_waits = false;
  std::jthread first(
      [&] { reactor.drive_until([&] { return first_may_go.load(); }, Deadline::in(20s)); });
  std::jthread second([&] {
    second_waits = true;
    EXPECT_TRUE(reactor.drive_until([&] { return second_done.load(); }, Deadline::in(20s)));
  });
  wait_until([&] { return second_waits.load(); });
  reactor.post([&] {
    first_may_go = true;
    reactor.note_completion();
  });
  first.join();
  reactor.post([&] {
    second_done = true;
    reactor.note_completion();
  });
}

// Always has something to do, as a ring under load.
class Busy final : public Pollable {
 public:
  bool poll() override { return true; }
  void set_asleep(bool) override {}
};

TEST(Reactor, ABusyLinkStarvesNeitherTimersNorDeadlines) {
  Reactor reactor;
  Busy busy;
  reactor.run([&] { reactor.add(busy); });
  std::atomic<bool> timer = false;
  reactor.post([&] { reactor.poller().after(1ms, [&] { timer = true; }); });
  EXPECT_TRUE(reactor.drive_until([&] { return timer.load(); }, Deadline::in(20s)));
  const auto begin = Clock::now();
  EXPECT_FALSE(reactor.drive_until([] { return false; }, Deadline::in(5ms)));
  EXPECT_LT(Clock::now() - begin, 5s);
  reactor.run([&] { reactor.remove(busy); });
}

// Counts how often it is looked after.
class Counted final : public Pollable {
 public:
  int polls = 0;
  bool poll() override {
    ++polls;
    return false;
  }
  void set_asleep(bool) override {}
};

TEST(Reactor, ACallerThatOnlyTriesStarvesNeitherLinksNorSocketsNorTimers) {
  Reactor reactor;
  reactor.stop();  // only this caller drives
  Counted link;
  reactor.add(link);
  bool timer = false, socket = false;
  std::array<int, 2> ends;
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const FileDescriptor from(ends[0]), to(ends[1]);
  reactor.poller().after(0ms, [&] { timer = true; });
  reactor.poller().watch(from.get(), EPOLLIN, [&](std::uint32_t) { socket = true; });
  ASSERT_EQ(::write(to.get(), "x", 1), 1);
  constexpr int kTries = 4096;
  for (int i = 0; i < kTries; ++i) ASSERT_TRUE(reactor.try_drive([] {}));
  EXPECT_GE(link.polls, kTries / 64);
  EXPECT_TRUE(timer);
  EXPECT_TRUE(socket);
  reactor.poller().forget(from.get());
  reactor.remove(link);
}

TEST(Reactor, ACallerWhoseWaitsAreShortStarvesNeitherSocketsNorTimers) {
  Reactor reactor;
  reactor.stop();  // only this caller drives
  bool timer = false;
  reactor.poller().after(0ms, [&] { timer = true; });
  for (int wait = 0; wait < 64; ++wait) {
    int looks = 0;
    ASSERT_TRUE(reactor.drive_until([&] { return ++looks > 3; }, Deadline::in(20s)));
  }
  EXPECT_TRUE(timer);
}

// Always moves something, and takes its time, as on a processor that many share.
class Slow final : public Pollable {
 public:
  int polls = 0;
  bool poll() override {
    ++polls;
    const auto end = Clock::now() + 2ms;
    while (Clock::now() < end) {
    }
    return true;
  }
  void set_asleep(bool) override {}
};

TEST(Reactor, LooksThatTakeLongDelayThePollerByFewOfThem) {
  Reactor reactor;
  reactor.stop();  // only this caller drives
  Slow link;
  reactor.add(link);
  bool timer = false;
  reactor.poller().after(0ms, [&] { timer = true; });
  EXPECT_TRUE(reactor.drive_until([&] { return timer; }, Deadline::in(20s)));
  EXPECT_LT(link.polls, 8);
  reactor.remove(link);
}

// Goes from its own poll, as a link that a failure ends.
class Leaving final : public Pollable {
 public:
  explicit Leaving(Reactor& reactor) : reactor_(reactor) {}
  std::atomic<int> polls = 0;
  bool poll() override {
    ++polls;
    reactor_.remove(*this);
    return false;
  }
  void set_asleep(bool) override {}

 private:
  Reactor& reactor_;
};

TEST(Reactor, APollableMayRemoveItselfWhileItIsPolled) {
  Reactor reactor;
  Leaving one(reactor), other(reactor);
  reactor.run([&] {
    reactor.add(one);
    reactor.add(other);
  });
  reactor.run([] {});
  reactor.run([] {});
  EXPECT_EQ(one.polls, 1);
  EXPECT_EQ(other.polls, 1);
  Leaving gone(reactor);
  reactor.stop();
  reactor.add(gone);
  reactor.remove(gone);  // the list holds a gap until the next look
  EXPECT_FALSE(reactor.drive_until([] { return false; }, Deadline::in(2ms)));
}

// A link that, looked after, makes others send.
class Prompting final : public Pollable {
 public:
  Prompting(Reactor& reactor, int times) : reactor_(reactor), left_(times) {}
  int flushes = 0;
  bool poll() override {
    if (left_ > 0) reactor_.note_unsent();
    --left_;
    return false;
  }
  bool flush() override {
    ++flushes;
    return poll();
  }
  void set_asleep(bool) override {}

 private:
  Reactor& reactor_;
  int left_;
};

TEST(Reactor, ALookEndsWhenWhatALinkMadeAnotherSendIsFlushedAndNeverGoesOnForEver) {
  for (const int times : {0, 1, 1'000'000}) {
    Reactor reactor;
    Prompting sender(reactor, 0), prompter(reactor, times);
    reactor.run([&] {
      reactor.add(sender);
      reactor.add(prompter);
      reactor.look();
      EXPECT_EQ(sender.flushes, times == 0 ? 0 : 1) << times;
      reactor.remove(sender);
      reactor.remove(prompter);
    });
  }
}

TEST(Reactor, WhenIdleItBurnsNoProcessorTime) {
  Reactor reactor;
  reactor.run([] {});
  reactor.drive_until([] { return false; }, Deadline::in(5ms));  // past the spin and the park
  const auto before = processor_time();
  Poller elsewhere;
  // This thread sleeps; the communication thread has the baton.
  elsewhere.wait(Deadline::in(200ms));
  EXPECT_LT(processor_time() - before, 4ms) << "2 % of 200 ms";
}

TEST(Reactor, ACallerThatWaitsLongSleeps) {
  Reactor reactor;
  const auto before = processor_time();
  reactor.drive_until([] { return false; }, Deadline::in(200ms));
  EXPECT_LT(processor_time() - before, 20ms);
}

// Each timer moves something, as each piece from a slow network does.
TEST(Reactor, ACallerToWhomLittleComesSleepsBetweenThough) {
  Reactor reactor({.spin = 20ms});
  std::function<void()> feed = [&] { reactor.poller().after(2ms, feed); };
  reactor.run(feed);
  reactor.drive_until([] { return false; }, Deadline::in(100ms));
  // The least of three: a machine that stands still for a moment makes it spin for once.
  auto least = std::chrono::microseconds::max();
  for (int turn = 0; turn < 3 && least >= 60ms; ++turn) {
    const auto before = processor_time();
    reactor.drive_until([] { return false; }, Deadline::in(200ms));
    least = std::min(least, processor_time() - before);
  }
  EXPECT_LT(least, 60ms) << "it spins at first, then as the pieces ask for";
  reactor.run([&] { feed = [] {}; });
}

TEST(Reactor, WhatACallerLeavesAfterALongWaitIsTakenOver) {
  Reactor reactor;
  for (int i = 0; i < 5; ++i) {
    // Long enough for the communication thread to park until the caller stops.
    EXPECT_FALSE(reactor.drive_until([] { return false; }, Deadline::in(10ms)));
    std::atomic<bool> ran = false;
    reactor.run([&] { reactor.poller().after(5ms, [&] { ran = true; }); });
    wait_until([&] { return ran.load(); });
  }
}

struct Bells final : Pollable {
  bool poll() override { return false; }
  void set_asleep(bool asleep) override { are_on = asleep; }
  std::atomic<bool> are_on = false;
};

// A call after a pause, in which the communication thread has come to sleep, needs no other thread.
TEST(Reactor, ACallerDrivesAtOnceThoughTheCommunicationThreadSleeps) {
  Reactor reactor;
  Bells bells;
  reactor.run([&] { reactor.add(bells); });
  for (int i = 0; i < 20; ++i) {
    wait_until([&] { return bells.are_on.load(); });
    const Deadline asleep = Deadline::in(2ms);
    wait_until([&] { return asleep.passed(); });
    bool are_on = true;
    // The thread gives the baton back after it has said that it sleeps.
    wait_until([&] { return reactor.try_drive([&] { are_on = bells.are_on; }); });
    EXPECT_FALSE(are_on) << "who sends to a thread that is awake pays no bell";
  }
  reactor.run([&] { reactor.remove(bells); });
}

// Callers come and go while it falls asleep, and what they leave is looked after.
TEST(Reactor, NothingIsLostBetweenACallerAndTheThreadThatSleeps) {
  Reactor reactor;
  Bells bells;
  reactor.run([&] { reactor.add(bells); });
  std::atomic<int> timers = 0, posts = 0;
  for (int i = 0; i < 300; ++i) {
    const Deadline pause = Deadline::in(std::chrono::microseconds(37 * (i % 50)));
    wait_until([&] { return pause.passed(); });
    if (i % 3 == 0) reactor.run([&] { reactor.poller().after(1us, [&] { ++timers; }); });
    if (i % 3 == 1) reactor.post([&] { ++posts; });
    if (i % 3 == 2) reactor.drive_until([] { return false; }, Deadline::in(50us));
    (void)reactor.try_drive([] {});
  }
  wait_until([&] { return timers == 100 && posts == 100; });
  reactor.run([&] { reactor.remove(bells); });
}

TEST(Reactor, StopsWhileACallerHasDrivenForLong) {
  Reactor reactor;
  std::atomic<bool> stopped = false;
  std::jthread caller(
      [&] { EXPECT_TRUE(reactor.drive_until([&] { return stopped.load(); }, Deadline::in(20s))); });
  const Deadline parked = Deadline::in(10ms);
  wait_until([&] { return parked.passed(); });
  reactor.stop();
  reactor.post([&] {
    stopped = true;
    reactor.note_completion();
  });
}

TEST(Reactor, StopEndsItsThreadWithTasksDoneAndCallersMayStillDrive) {
  for (int i = 0; i < 50; ++i) {
    Reactor reactor;
    std::atomic<int> count = 0;
    for (int k = 0; k < 10; ++k) reactor.post([&] { ++count; });
    reactor.stop();
    EXPECT_EQ(count, 10) << "a task that was posted before the stop is not forgotten";
    bool ran = false;
    reactor.run([&] { ran = true; });
    EXPECT_TRUE(ran);
    reactor.stop();
  }
}

}  // namespace
}  // namespace paceline::transport
