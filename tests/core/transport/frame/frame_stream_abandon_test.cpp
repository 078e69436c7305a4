// A rank that gives up a stream gets its memory back at once, and the peer sees whole frames.
// Covers paceline/core/transport/frame/frame_stream.h.
#include <gtest/gtest.h>

#include "tests/core/transport/stream_ends.h"
#include "tests/support/pattern.h"

namespace paceline::transport::testing {
namespace {

using test::pattern;

TEST(FrameStream, AbandonFromWithinAListenerKeepsTheStreamWhole) {
  for (std::size_t portion = 1; portion < 3 * (kFrameHeaderBytes + 100); portion += 7) {
    Pipe pipe;
    pipe.portion = [&] { return portion; };
    Receiver receiver;
    Listener listener;
    FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, kReceiver, false);
    listener.then = [&] {
      out.abandon();
      out.send({.type = FrameType::failure}, pattern(10, 2));
    };
    auto payload = std::make_unique<std::vector<std::byte>>(pattern(100, 1));
    for (std::uint64_t i = 0; i < 4; ++i)
      out.send({.type = FrameType::data, .sequence = i}, *payload, &listener, i);
    while (listener.cookies.empty()) ASSERT_TRUE(out.flush());
    payload.reset();  // the caller's memory is gone
    for (int i = 0; i < 1000 && (out.has_unsent() || !pipe.bytes.empty()); ++i) {
      ASSERT_TRUE(out.flush());
      ASSERT_TRUE(in.receive()) << "portion " << portion;
    }
    EXPECT_EQ(listener.cookies.size(), 1u) << "abandoned frames are told to nobody";
    ASSERT_FALSE(receiver.heard.empty());
    EXPECT_EQ(receiver.heard.back().header.type, FrameType::failure);
    EXPECT_EQ(receiver.heard.back().payload, pattern(10, 2));
  }
}

TEST(FrameStream, AbandonInTheMiddleOfAWriteNeverReadsTheCallersMemoryAgain) {
  for (std::size_t written = 0; written <= kFrameHeaderBytes + 100; ++written) {
    Pipe pipe;
    std::size_t allowed = written;
    pipe.portion = [&] { return std::exchange(allowed, 0); };
    Receiver receiver;
    Listener listener;
    FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, kReceiver, false);
    auto payload = std::make_unique<std::vector<std::byte>>(pattern(100, 1));
    out.send({.type = FrameType::data, .sequence = 1}, *payload, &listener);
    out.send({.type = FrameType::data, .sequence = 2}, *payload, &listener);
    ASSERT_TRUE(out.flush());
    out.abandon();
    payload.reset();  // ASan sees any use from here on
    out.send({.type = FrameType::goodbye}, {});
    pipe.portion = [] { return ~std::size_t{0}; };
    ASSERT_TRUE(out.flush());
    ASSERT_TRUE(in.receive());
    const bool begun = written > 0;
    ASSERT_EQ(receiver.heard.size(), begun ? 2u : 1u) << written;
    if (begun) {
      EXPECT_EQ(receiver.heard.front().payload, pattern(100, 1));
    }
    EXPECT_EQ(receiver.heard.back().header.type, FrameType::goodbye);
    EXPECT_EQ(listener.cookies.size(), written == kFrameHeaderBytes + 100 ? 1u : 0u);
  }
}

TEST(FrameStream, AbandonDropsNoGoodbye) {
  Pipe pipe;
  Receiver receiver;
  Listener listener;
  FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, kReceiver, false);
  const auto payload = pattern(100, 1);
  out.send({.type = FrameType::data, .sequence = 1}, payload, &listener);
  out.send({.type = FrameType::goodbye}, {});
  out.abandon();
  ASSERT_TRUE(out.flush());
  ASSERT_TRUE(in.receive());
  ASSERT_EQ(receiver.heard.size(), 1u);
  EXPECT_EQ(receiver.heard[0].header.type, FrameType::goodbye);
}

TEST(FrameStream, AbandonInTheMiddleOfAPlacedReadNeverWritesTheCallersMemoryAgain) {
  for (std::size_t arrived = 0; arrived <= kFrameHeaderBytes + 100; ++arrived) {
    Pipe pipe;
    Receiver receiver;
    auto target = std::make_unique<std::vector<std::byte>>(100);
    receiver.place_at = [&](const FrameHeader& h) {
      return h.length == 100 && target ? MutableBytes(*target) : MutableBytes();
    };
    FrameStream out(pipe, receiver, kSender, true), in(pipe, receiver, kReceiver, true);
    out.send({.type = FrameType::data}, pattern(100, 1));
    out.send({.type = FrameType::data}, pattern(300, 2));
    ASSERT_TRUE(out.flush());
    std::size_t allowed = arrived;
    pipe.portion = [&] { return std::exchange(allowed, 0); };
    while (allowed > 0) ASSERT_TRUE(in.receive());
    in.abandon();
    target.reset();
    pipe.portion = [] { return ~std::size_t{0}; };
    ASSERT_TRUE(in.receive());
    ASSERT_EQ(receiver.heard.size(), 2u) << arrived;
    EXPECT_EQ(receiver.heard[0].payload, pattern(100, 1));
    EXPECT_EQ(receiver.heard[1].payload, pattern(300, 2));
  }
}

TEST(FrameStream, AbandonFromWithinPlaceIsHarmless) {
  Pipe pipe;
  Receiver receiver;
  auto target = std::make_unique<std::vector<std::byte>>(100);
  FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, kReceiver, false);
  int asked = 0;
  receiver.place_at = [&](const FrameHeader&) {
    if (++asked == 1) return MutableBytes(*target);
    target.reset();
    in.abandon();
    return MutableBytes();
  };
  out.send({.type = FrameType::data}, pattern(100, 1));
  out.send({.type = FrameType::data}, pattern(100, 2));
  ASSERT_TRUE(out.flush());
  ASSERT_TRUE(in.receive());
  ASSERT_EQ(receiver.heard.size(), 2u);
  EXPECT_EQ(receiver.heard[1].payload, pattern(100, 2));
}

TEST(FrameStream, AbandonForgetsWhatWaitsForItsTurn) {
  Pipe pipe;
  Receiver receiver;
  FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, kReceiver, false);
  Queued queued(out);
  out.abandon();
  queued.payload.clear();
  out.send({.type = FrameType::failure}, pattern(10, 2));
  EXPECT_EQ(out.unsent_frames(), 1u);
  ASSERT_TRUE(out.flush());
  ASSERT_TRUE(in.receive());
  ASSERT_EQ(receiver.heard.size(), 1u);
  EXPECT_TRUE(queued.listener.cookies.empty());
}

}  // namespace
}  // namespace paceline::transport::testing
