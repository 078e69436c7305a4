// The launcher's loop with real pipes: its signals, and workers' streams (tests/processes has whole
// runs).
#include "paceline/app/launch/output/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "paceline/app/launch/process/signals.h"

namespace paceline::launch {
namespace {

using transport::FileDescriptor;

TEST(Output, EndsStreamsThatAStrangerHoldsOpenOnceTheWritersAreGone) {
  transport::Poller poller;
  Output output(poller, {}, [](int) {});
  std::array<int, 2> one, other;
  ASSERT_EQ(::pipe2(one.data(), O_CLOEXEC | O_NONBLOCK), 0);
  ASSERT_EQ(::pipe2(other.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const FileDescriptor held(one[1]), held_too(other[1]);
  output.add(0, FileDescriptor(one[0]), FileDescriptor(other[0]));
  EXPECT_FALSE(output.all_written());
  output.writers_are_gone();
  EXPECT_TRUE(output.all_written());
}

// An agent's output goes as far as the launcher has read it; its own words do not wait for that.
TEST(Output, BeyondTheWindowWorkersWaitForCreditAndOurOwnWordsDoNot) {
  transport::Poller poller;
  std::array<int, 2> to, worker;
  ASSERT_EQ(::pipe2(to.data(), O_CLOEXEC | O_NONBLOCK), 0);
  ASSERT_EQ(::pipe2(worker.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const FileDescriptor launcher(to[0]), sends(to[1]), writes(worker[1]);
  const auto whole = [](int, bool, std::string_view bytes, std::string& out) { out += bytes; };
  Output output(poller, sends.get(), {.frame = whole, .window = 100}, [](int) {});
  output.add(0, FileDescriptor(worker[0]), {});
  const auto sent = [&] {
    for (int i = 0; i < 5; ++i) poller.wait(Deadline::in(std::chrono::milliseconds(2)));
    std::array<char, 4096> bytes;
    const auto count = ::read(launcher.get(), bytes.data(), bytes.size());
    return std::string(bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  };
  const std::string line(120, 'x');
  ASSERT_EQ(::write(writes.get(), line.data(), line.size()), 120);
  EXPECT_EQ(sent(), line);
  ASSERT_EQ(::write(writes.get(), line.data(), line.size()), 120);
  EXPECT_EQ(sent(), "") << "120 bytes are on their way, 20 more than the window";
  output.say("an end");
  EXPECT_EQ(sent(), "an end");
  output.credit(120);
  EXPECT_EQ(sent(), line);
}

// A launcher on a terminal, and the writing ends of two workers' stdout.
struct OnTerminal {
  OnTerminal() {
    terminal = FileDescriptor(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK));
    ::grantpt(terminal.get());
    ::unlockpt(terminal.get());
    launcher = FileDescriptor(::open(::ptsname(terminal.get()), O_RDWR | O_NOCTTY));
    termios raw;
    ::tcgetattr(launcher.get(), &raw);
    ::cfmakeraw(&raw);
    ::tcsetattr(launcher.get(), TCSANOW, &raw);
    output = std::make_unique<Output>(poller, launcher.get(), OutputOptions{.colour = false},
                                      [](int) {});
    for (int rank = 0; rank < 2; ++rank) {
      std::array<int, 2> pipe;
      EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK), 0);
      output->add(rank, FileDescriptor(pipe[0]), {});
      workers[static_cast<std::size_t>(rank)] = FileDescriptor(pipe[1]);
    }
  }
  void write(int rank, std::string_view text) {
    EXPECT_EQ(::write(workers[static_cast<std::size_t>(rank)].get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  // The text on the terminal, once it has come to this size.
  std::string shown(std::size_t size) {
    const Deadline deadline = Deadline::in(std::chrono::seconds(5));
    while (all.size() < size && !deadline.passed()) {
      poller.wait(Deadline::in(std::chrono::milliseconds(10)));
      std::array<char, 4096> bytes;
      const auto count = ::read(terminal.get(), bytes.data(), bytes.size());
      if (count > 0) all.append(bytes.data(), static_cast<std::size_t>(count));
    }
    return all;
  }

  transport::Poller poller;
  FileDescriptor terminal, launcher;
  std::array<FileDescriptor, 2> workers;
  std::unique_ptr<Output> output;
  std::string all;
};

TEST(Output, ATerminalShowsAPromptThoughItsLineHasNotEnded) {
  OnTerminal run;
  run.write(0, "continue? ");
  EXPECT_EQ(run.shown(14), "[0] continue? ");
  run.write(0, "yes\n");
  EXPECT_EQ(run.shown(18), "[0] continue? yes\n");
}

TEST(Output, LinesOfOthersEndALineThatIsShownAndNoByteIsLost) {
  OnTerminal run;
  run.write(0, "10 %");
  EXPECT_EQ(run.shown(8), "[0] 10 %");
  run.write(1, "a line\n");
  EXPECT_EQ(run.shown(20), "[0] 10 %\n[1] a line\n");
  run.write(0, ", 20 %\n");
  EXPECT_EQ(run.shown(31), "[0] 10 %\n[1] a line\n[0] , 20 %\n");
  run.write(1, "a prompt ");
  EXPECT_EQ(run.shown(44), "[0] 10 %\n[1] a line\n[0] , 20 %\n[1] a prompt ");
  run.output->say("paceline: the end\n");
  EXPECT_EQ(run.shown(63), "[0] 10 %\n[1] a line\n[0] , 20 %\n[1] a prompt \npaceline: the end\n");
}

TEST(Signals, ArriveInTheLoopAndAreRestored) {
  transport::Poller poller;
  int got = 0;
  {
    const SignalWatch watch(poller, [&](int number) { got = number; });
    ::kill(::getpid(), SIGUSR1);
    poller.wait(Deadline::in(std::chrono::seconds(5)));
  }
  EXPECT_EQ(got, SIGUSR1);
  sigset_t blocked;
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_EQ(::sigismember(&blocked, SIGUSR1), 0);
}

TEST(Signals, HaveNames) {
  EXPECT_EQ(signal_name(SIGKILL), "SIGKILL");
  EXPECT_EQ(signal_name(SIGRTMIN + 1), "signal " + std::to_string(SIGRTMIN + 1));
}

}  // namespace
}  // namespace paceline::launch
