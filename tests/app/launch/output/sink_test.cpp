#include "paceline/app/launch/output/sink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace paceline::launch {
namespace {

using transport::FileDescriptor;
using transport::Poller;

struct Ends {
  FileDescriptor read, write;
};

Ends pipe_ends() {
  std::array<int, 2> ends;
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

Ends socket_ends() {
  std::array<int, 2> ends;
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::string numbers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::to_string(i) + "\n";
  return text;
}

// Writes far more than a pipe holds while the other end does not read, then reads it all.
void expect_everything_arrives(Ends ends) {
  Poller poller;
  int rooms = 0;
  Sink sink(poller, ends.write.get(),
            {.on_room = [&] { ++rooms; }, .on_lost = [](int error) { FAIL() << error; }});
  const std::string text = numbers(400'000);
  sink.write(text);
  EXPECT_TRUE(sink.full());
  std::string got;
  std::array<char, 65536> piece;
  while (got.size() < text.size()) {
    const auto count = ::read(ends.read.get(), piece.data(), piece.size());
    ASSERT_GT(count, 0);
    got.append(piece.data(), static_cast<std::size_t>(count));
    poller.wait(Deadline::in(std::chrono::seconds(0)));
  }
  EXPECT_EQ(got, text);
  EXPECT_EQ(sink.waiting(), 0U);
  EXPECT_EQ(rooms, 1);
}

TEST(Sink, NeverBlocksAndLosesNothingOnAPipe) {
  expect_everything_arrives(pipe_ends());
}
TEST(Sink, NeverBlocksAndLosesNothingOnASocket) {
  expect_everything_arrives(socket_ends());
}

TEST(Sink, LeavesTheSharedDescriptorBlocking) {
  const Ends ends = pipe_ends();
  Poller poller;
  const Sink sink(poller, ends.write.get(), {});
  EXPECT_EQ(::fcntl(ends.write.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(Sink, AReaderThatWentAwayIsReportedOnce) {
  ::signal(SIGPIPE, SIG_IGN);
  Ends ends = pipe_ends();
  Poller poller;
  int error = 0, times = 0;
  Sink sink(poller, ends.write.get(), {.on_lost = [&](int number) {
              error = number;
              ++times;
            }});
  ends.read.reset();
  sink.write("one\n");
  sink.write("two\n");
  EXPECT_EQ(error, EPIPE);
  EXPECT_EQ(times, 1);
  EXPECT_EQ(sink.waiting(), 0U);
}

TEST(Sink, AFullDiskIsReported) {
  const FileDescriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  Poller poller;
  int error = 0;
  Sink sink(poller, full.get(), {.on_lost = [&](int number) { error = number; }});
  sink.write("one\n");
  EXPECT_EQ(error, ENOSPC);
}

TEST(Sink, SeesThatTwoDescriptorsLeadToOneFile) {
  const Ends ends = pipe_ends(), other = pipe_ends();
  const FileDescriptor again(::dup(ends.write.get()));
  EXPECT_TRUE(same_file(ends.write.get(), again.get()));
  EXPECT_FALSE(same_file(ends.write.get(), other.write.get()));
}

}  // namespace
}  // namespace paceline::launch
