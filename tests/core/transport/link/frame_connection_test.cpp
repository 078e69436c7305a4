#include "paceline/core/transport/link/frame_connection.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/core/transport/link_ends.h"

namespace paceline::transport {
namespace {

using namespace std::chrono_literals;

struct Side {
  std::vector<FrameHeader> heard;
  std::vector<Failure> ends;
  Result<> answer = Done{};
  std::optional<FrameConnection> connection;

  void open(FileDescriptor socket, const StreamIdentity& identity) {
    connection.emplace(std::move(socket), identity,
                       FrameConnection::Callbacks{.on_frame =
                                                      [this](const FrameHeader& header, Bytes) {
                                                        heard.push_back(header);
                                                        return answer;
                                                      },
                                                  .on_end =
                                                      [this](const Failure& why) {
                                                        ends.push_back(why);
                                                        connection.reset();
                                                      }});
  }
};

class FrameConnectionTest : public ::testing::Test {
 protected:
  FrameConnectionTest() {
    auto [first, second] = test::tcp_pair();
    one.open(std::move(first), test::kFirst);
    other.open(std::move(second), test::kSecond);
    one.connection->watch(poller);
    other.connection->watch(poller);
  }
  void wait(const std::function<bool()>& done) {
    const Deadline deadline = Deadline::in(10s);
    while (!done() && !deadline.passed()) poller.wait(deadline);
    ASSERT_TRUE(done());
  }

  Poller poller, next;  // outlive the connections
  Side one, other;
};

TEST_F(FrameConnectionTest, FramesGoOutAtOnceAndComeInByCallback) {
  for (std::uint64_t i = 0; i < 100; ++i)
    one.connection->send({.type = test::kShortFrame, .sequence = i}, bytes_of(i));
  EXPECT_TRUE(one.connection->flushed());
  wait([&] { return other.heard.size() == 100; });
  EXPECT_EQ(other.heard.back().sequence, 99u);
}

TEST_F(FrameConnectionTest, WhatTheSocketDoesNotTakeGoesOutLater) {
  const std::vector<std::byte> much(1 << 20);
  for (int i = 0; i < 20; ++i) one.connection->send({.type = test::kShortFrame}, much);
  EXPECT_FALSE(one.connection->flushed());
  wait([&] { return other.heard.size() == 20; });
  EXPECT_TRUE(one.connection->flushed());
}

TEST_F(FrameConnectionTest, TheEndIsToldOnceAfterAllFrames) {
  one.connection->send({.type = test::kShortFrame}, {});
  one.connection.reset();
  wait([&] { return !other.ends.empty(); });
  EXPECT_EQ(other.heard.size(), 1u);
  EXPECT_EQ(other.ends.size(), 1u);
}

// A worker that dies with a report on its lips, while the server has more to write than it took.
TEST_F(FrameConnectionTest, LastWordsAreHeardThoughWritingFails) {
  const std::vector<std::byte> much(1 << 20);
  for (int i = 0; i < 20; ++i) one.connection->send({.type = test::kShortFrame}, much);
  ASSERT_FALSE(one.connection->flushed());
  other.connection->send({.type = test::kShortFrame}, {});
  other.connection.reset();
  wait([&] { return !one.ends.empty(); });
  ASSERT_EQ(one.heard.size(), 1u);
  EXPECT_EQ(one.heard[0].type, test::kShortFrame);
}

TEST_F(FrameConnectionTest, ARefusedFrameOrGarbageEndsIt) {
  other.answer = Failure{Fault::io, "nonsense", {}};
  one.connection->send({.type = test::kShortFrame}, {});
  wait([&] { return !other.ends.empty(); });
  EXPECT_EQ(other.ends[0].what, "nonsense");
  wait([&] { return !one.ends.empty(); });

  auto [stranger, socket] = test::tcp_pair();
  Side third;
  third.open(std::move(socket), test::kSecond);
  third.connection->watch(poller);
  const std::string text =
      "GET / HTTP/1.1\r\nHost: somebody\r\nUser-Agent: somebody\r\nAccept: */*\r\n\r\n";
  ASSERT_TRUE(send_all(stranger.get(), std::as_bytes(std::span(text)), Deadline::in(1s)));
  wait([&] { return !third.ends.empty(); });
  EXPECT_EQ(third.ends[0].what, "malformed frame: it does not begin with Paceline's magic number");
}

TEST_F(FrameConnectionTest, AFrameOfAKindThatItDoesNotKnowEndsIt) {
  one.connection->send({.type = test::kUnknownFrame}, {});
  wait([&] { return !other.ends.empty(); });
  EXPECT_EQ(other.ends[0].what, "malformed frame: unknown type 102");
  EXPECT_TRUE(other.heard.empty());
}

TEST_F(FrameConnectionTest, MovesToAnotherPollerWithWhatIsUnsent) {
  const std::vector<std::byte> much(1 << 20);
  for (int i = 0; i < 20; ++i) one.connection->send({.type = test::kShortFrame}, much);
  one.connection->watch(next);
  const Deadline deadline = Deadline::in(10s);
  while (other.heard.size() < 20 && !deadline.passed()) {
    next.wait(Deadline::in(1ms));
    poller.wait(Deadline::in(1ms));
  }
  EXPECT_EQ(other.heard.size(), 20u);
}

}  // namespace
}  // namespace paceline::transport
