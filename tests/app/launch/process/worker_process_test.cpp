// One shim with one worker, without the launcher's loop around it.
#include "paceline/app/launch/process/worker_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "paceline/app/launch/hosts/hosts.h"
#include "paceline/app/launch/process/descendants.h"
#include "paceline/app/launch/process/secret_file.h"
#include "paceline/core/base/processors.h"

namespace paceline::launch {
namespace {

using transport::FileDescriptor;

struct Started {
  FileDescriptor secret = secret_file("0123");
  FileDescriptor nothing{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  WorkerProcess worker;

  explicit Started(const std::string& script, const std::string& program = "/bin/sh")
      : worker(WorkerProcess::start(orders(script, program)).value()) {}
  ~Started() {
    worker.kill();
    while (worker.read()) {
    }
    ::waitpid(worker.shim(), nullptr, 0);
  }
  ShimOrders orders(const std::string& script, const std::string& program) {
    ShimOrders result{
        .program = program, .command = {program, "-c", script}, .environment = own_environment()};
    result.secret = secret.get();
    result.input = nothing.get();
    ::sigprocmask(SIG_BLOCK, nullptr, &result.signal_mask);
    ::sigaction(SIGPIPE, nullptr, &result.pipe_action);
    ::getrlimit(RLIMIT_NOFILE, &result.open_files);
    return result;
  }
  std::string output() {
    const auto from = worker.take_output();
    ::fcntl(from.get(), F_SETFL, 0);
    std::string text;
    std::array<char, 4096> piece;
    for (ssize_t count; (count = ::read(from.get(), piece.data(), piece.size())) > 0;) {
      text.append(piece.data(), static_cast<std::size_t>(count));
    }
    return text;
  }
};

// This number of bytes of its output; fewer if it ends before.
std::string text_of(int fd, std::size_t count) {
  ::fcntl(fd, F_SETFL, 0);
  std::string text(count, '\0');
  std::size_t read = 0;
  for (ssize_t more; read < count && (more = ::read(fd, &text[read], count - read)) > 0;)
    read += static_cast<std::size_t>(more);
  return text.substr(0, read);
}

TEST(WorkerProcess, TellsItsStartItsEndAndThatNothingIsLeft) {
  Started started("exit 3");
  const auto begun = started.worker.read();
  ASSERT_TRUE(begun && begun->kind == ShimMessage::Kind::started);
  const auto ended = started.worker.read();
  ASSERT_TRUE(ended && ended->kind == ShimMessage::Kind::ended);
  EXPECT_EQ(ended->pid, begun->pid);
  EXPECT_EQ(ended->value, 3 << 8);
  EXPECT_GE(ended->stamp_ns, begun->stamp_ns);
  EXPECT_FALSE(started.worker.read().has_value());
}

TEST(WorkerProcess, TellsWhyAProgramCannotBeExecuted) {
  Started started("", "/no/such/program");
  ShimMessage first = *started.worker.read();
  if (first.kind == ShimMessage::Kind::started)
    first = *started.worker.read();  // either may come first
  EXPECT_EQ(first.kind, ShimMessage::Kind::not_started);
  EXPECT_EQ(first.value, ENOENT);
}

TEST(WorkerProcess, ForwardsSignalsToTheGroup) {
  // The worker and a child of it say "set" once their traps are set. The child's end is awaited.
  Started started(
      "(trap 'echo heard; exit' USR1; echo set; while :; do :; done) & "
      "trap 'wait; exit 9' USR1; echo set; while :; do :; done");
  const auto from = started.worker.take_output();
  ASSERT_EQ(text_of(from.get(), 8), "set\nset\n");
  started.worker.forward(SIGUSR1);
  EXPECT_EQ(text_of(from.get(), 6), "heard\n");
  std::optional<int> ended;
  while (const auto message = started.worker.read()) {
    if (message->kind == ShimMessage::Kind::ended) ended = message->value;
  }
  EXPECT_EQ(ended, 9 << 8);
}

TEST(WorkerProcess, IsKilledWithItsWholeSubtree) {
  Started started("setsid sleep 100 & sleep 100");
  started.worker.kill();
  std::optional<ShimMessage> last;
  while (const auto message = started.worker.read()) last = message;
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->value, SIGKILL);
  EXPECT_EQ(started.output(), "") << "the pipe is at its end: nobody holds it";
}

TEST(WorkerProcess, ReadsTheSecretByItsPath) {
  EXPECT_EQ(Started("cat $PACELINE_SECRET_FILE").output(), "0123");
}

TEST(SecretFile, IsSealed) {
  const auto file = secret_file("abcd");
  EXPECT_EQ(::pwrite(file.get(), "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(file.get(), 0), -1);
}

TEST(Descendants, AreFoundAndKilledButTheSparedAreNot) {
  const auto before = children();
  EXPECT_TRUE(kill_descendants(Deadline::in(std::chrono::seconds(1)), before));
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  EXPECT_THAT(children(), ::testing::Contains(child));
  auto spared = before;
  spared.push_back(child);
  EXPECT_TRUE(kill_descendants(Deadline::in(std::chrono::seconds(1)), spared));
  EXPECT_EQ(::kill(child, 0), 0);
  pid_t reaped = 0;
  EXPECT_TRUE(kill_descendants(Deadline::in(std::chrono::seconds(1)), before,
                               [&](pid_t pid, int) { reaped = pid; }));
  EXPECT_EQ(reaped, child);
  EXPECT_EQ(children(), before);
}

TEST(Host, GivesPortsCoresAndIds) {
  EXPECT_GT(free_port(), 0);
  EXPECT_GE(usable_cores(), 1);
  EXPECT_FALSE(host_name().empty());
  EXPECT_EQ(random_job_id().size(), 16U);
  EXPECT_NE(random_job_id(), random_job_id());
}

}  // namespace
}  // namespace paceline::launch
