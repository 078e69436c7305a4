#include "paceline/core/transport/reactor/poller.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline::transport {
namespace {

using namespace std::chrono_literals;

struct OsPipe {
  OsPipe() {
    std::array<int, 2> ends;
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    read = FileDescriptor(ends[0]);
    write = FileDescriptor(ends[1]);
  }
  void fill() { EXPECT_EQ(::write(write.get(), "x", 1), 1); }
  void drain() {
    char c;
    while (::read(read.get(), &c, 1) > 0) {
    }
  }
  FileDescriptor read, write;
};

Deadline now() {
  return Deadline::in(0s);
}

TEST(Poller, CallsBackWhileADescriptorIsReadyAndNotAfter) {
  Poller poller;
  OsPipe pipe;
  int calls = 0;
  poller.watch(pipe.read.get(), EPOLLIN, [&](std::uint32_t events) {
    EXPECT_EQ(events, std::uint32_t{EPOLLIN});
    ++calls;
  });
  EXPECT_EQ(poller.wait(now()), 0);
  pipe.fill();
  EXPECT_EQ(poller.wait(now()), 1);
  EXPECT_EQ(poller.wait(now()), 1) << "level-triggered";
  pipe.drain();
  EXPECT_EQ(poller.wait(now()), 0);
  EXPECT_EQ(calls, 2);
  poller.change(pipe.read.get(), 0);
  pipe.fill();
  EXPECT_EQ(poller.wait(now()), 0);
}

TEST(Poller, ACallbackMayForgetItselfAndOthersThatAreDue) {
  Poller poller;
  std::array<OsPipe, 8> pipes;
  int calls = 0;
  for (OsPipe& pipe : pipes) {
    pipe.fill();
    poller.watch(pipe.read.get(), EPOLLIN, [&](std::uint32_t) {
      ++calls;
      for (OsPipe& other : pipes) poller.forget(other.read.get());
    });
  }
  EXPECT_EQ(poller.wait(now()), 1);
  EXPECT_EQ(poller.wait(now()), 0);
  EXPECT_EQ(calls, 1);
}

TEST(Poller, ADescriptorNumberUsedAnewIsNotCalledForItsPredecessor) {
  Poller poller;
  std::array<OsPipe, 2> pipes;
  int old_calls = 0, new_calls = 0;
  FileDescriptor reused;
  for (std::size_t i = 0; i < 2; ++i) {
    pipes[i].fill();
    poller.watch(pipes[i].read.get(), EPOLLIN, [&, i](std::uint32_t) {
      ++old_calls;
      OsPipe& other = pipes[1 - i];
      const int number = other.read.get();
      poller.forget(number);
      other.read.reset();
      reused = FileDescriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      EXPECT_EQ(reused.get(), number);
      OsPipe fresh;  // nothing to read in it
      ::dup3(fresh.read.get(), number, O_CLOEXEC);
      poller.watch(number, EPOLLIN, [&](std::uint32_t) { ++new_calls; });
      poller.forget(pipes[i].read.get());
    });
  }
  poller.wait(now());
  EXPECT_EQ(old_calls, 1);
  EXPECT_EQ(new_calls, 0);
  if (reused.is_open()) poller.forget(reused.get());
}

TEST(Poller, TimersRunInOrderOfTheirMomentsAndCancelledOnesDoNot) {
  Poller poller;
  std::vector<int> ran;
  poller.after(200ms, [&] { ran.push_back(2); });
  poller.after(1ms, [&] {
    ran.push_back(1);
    poller.after(0ms, [&] { ran.push_back(10); });
  });
  const auto cancelled = poller.after(1ms, [&] { ran.push_back(99); });
  poller.cancel(cancelled);
  const auto never = poller.after(1h, [&] { ran.push_back(99); });
  const Deadline deadline = Deadline::in(10s);
  while (ran.size() < 3 && !deadline.passed()) poller.wait(deadline);
  EXPECT_EQ(ran.size(), 3u);
  EXPECT_EQ(ran.front(), 1);
  EXPECT_EQ(std::count(ran.begin(), ran.end(), 99), 0);
  poller.cancel(never);
}

TEST(Poller, ATimerMayCancelOneThatIsDueWithIt) {
  Poller poller;
  int calls = 0;
  std::array<Poller::TimerId, 2> timers;
  for (std::size_t i = 0; i < 2; ++i) {
    timers[i] = poller.after(0ms, [&, i] {
      ++calls;
      poller.cancel(timers[1 - i]);
    });
  }
  while (calls == 0) poller.wait(Deadline::in(1s));
  poller.wait(now());
  EXPECT_EQ(calls, 1);
}

TEST(Poller, SleepsUntilTheDeadlineWakeOrATimer) {
  Poller poller;
  auto begin = Clock::now();
  EXPECT_EQ(poller.wait(Deadline::in(20ms)), 0);
  EXPECT_GE(Clock::now() - begin, 19ms);
  begin = Clock::now();
  std::jthread waker([&] { poller.wake(); });
  EXPECT_EQ(poller.wait(Deadline::in(10s)), 1);
  EXPECT_LT(Clock::now() - begin, 5s);
  EXPECT_EQ(poller.wait(now()), 0) << "woken once";
}

TEST(Poller, AWakeBeforeTheWaitIsNotLost) {
  Poller poller;
  for (int i = 0; i < 100; ++i) poller.wake();
  EXPECT_EQ(poller.wait(Deadline::in(10s)), 1);
  EXPECT_EQ(poller.wait(now()), 0);
}

TEST(Poller, WatchingAClosedDescriptorIsAnError) {
  Poller poller;
  EXPECT_THROW(poller.watch(-1, EPOLLIN, [](std::uint32_t) {}), Error);
  poller.forget(12345);
  poller.change(12345, EPOLLIN);
}

}  // namespace
}  // namespace paceline::transport
