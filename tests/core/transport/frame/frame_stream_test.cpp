#include "paceline/core/transport/frame/frame_stream.h"

#include <gtest/gtest.h>

#include <map>

#include "paceline/core/base/seed.h"
#include "tests/core/transport/stream_ends.h"
#include "tests/support/pattern.h"
#include "tests/support/seed.h"

namespace paceline::transport::testing {
namespace {

using test::pattern;

// Frames of all kinds and sizes, as they must arrive.
std::vector<Heard> send_mixed(FrameStream& stream, int count, std::uint64_t seed) {
  SeededNumbers numbers(test::seed(seed));
  std::vector<Heard> sent;
  for (int i = 0; i < count; ++i) {
    const std::size_t size =
        numbers.below(3) == 0 ? 0 : numbers.below(numbers.below(4) == 0 ? 20000 : 100);
    Heard frame{{.type = FrameType::data,
                 .sequence = static_cast<std::uint64_t>(i),
                 .length = static_cast<std::uint32_t>(size)},
                pattern(size, numbers())};
    stream.send(frame.header, frame.payload);
    frame.header.job = kSender.job;
    frame.header.generation = kSender.generation;
    sent.push_back(std::move(frame));
  }
  return sent;
}

TEST(FrameStream, AnySplitOfTheBytesGivesTheSameFrames) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SeededNumbers numbers(test::seed(seed));
    Pipe pipe;
    pipe.portion = [&] { return seed == 1 ? 1 : numbers.below(seed * 40); };
    Receiver receiver;
    FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, kReceiver, false);
    const auto sent = send_mixed(out, 40, seed);
    while (out.has_unsent() || !pipe.bytes.empty()) {
      ASSERT_TRUE(out.flush());
      ASSERT_TRUE(in.receive());
    }
    EXPECT_EQ(receiver.heard, sent) << "seed " << seed;
  }
}

TEST(FrameStream, RandomAndDamagedBytesAreRefusedAndNeverHandedOver) {
  Pipe good;
  Receiver nobody;
  FrameStream out(good, nobody, kSender, true);
  const auto sent = send_mixed(out, 8, 5);
  ASSERT_TRUE(out.flush());
  const std::vector<std::byte> whole(good.bytes.begin(), good.bytes.end());
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SeededNumbers numbers(test::seed(seed));
    auto bytes = numbers.below(4) == 0 ? pattern(200, seed) : whole;
    bytes[numbers.below(bytes.size())] ^= std::byte{1} << numbers.below(8);
    const bool truncated = numbers.below(3) == 0;
    if (truncated) bytes.resize(numbers.below(bytes.size()));
    Pipe pipe;
    pipe.bytes.assign(bytes.begin(), bytes.end());
    pipe.portion = [&] { return 1 + numbers.below(5000); };
    Receiver receiver;
    FrameStream in(pipe, receiver, kReceiver, true);
    bool failed = false;
    while (!pipe.bytes.empty() && !failed) failed = !in.receive();
    EXPECT_TRUE(failed || truncated) << "seed " << seed;
    ASSERT_LE(receiver.heard.size(), sent.size());
    EXPECT_TRUE(std::equal(receiver.heard.begin(), receiver.heard.end(), sent.begin(),
                           [](const Heard& a, const Heard& b) {
                             return a.payload == b.payload &&
                                    a.header.sequence == b.header.sequence;
                           }))
        << "seed " << seed;
  }
}

TEST(FrameStream, ThePayloadChecksumCatchesEveryFlippedBit) {
  Pipe pipe;
  Receiver nobody;
  FrameStream out(pipe, nobody, kSender, true);
  const auto payload = pattern(24, 9);
  out.send({.type = FrameType::data}, payload);
  ASSERT_TRUE(out.flush());
  const auto whole = pipe.bytes;
  for (std::size_t bit = 8 * kFrameHeaderBytes; bit < 8 * whole.size(); ++bit) {
    Pipe bad;
    bad.bytes = whole;
    bad.bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    Receiver receiver;
    FrameStream in(bad, receiver, kReceiver, true);
    EXPECT_FALSE(in.receive()) << "bit " << bit;
    EXPECT_TRUE(receiver.heard.empty());
  }
}

TEST(FrameStream, FramesOfAnotherJobGenerationOrSenderAreRefusedBeforeAPlaceIsAskedFor) {
  for (StreamIdentity stranger : {StreamIdentity{12, 3, 0, 1}, StreamIdentity{11, 2, 0, 1},
                                  StreamIdentity{11, 4, 0, 1}, StreamIdentity{11, 3, 2, 1}}) {
    Pipe pipe;
    Receiver receiver;
    receiver.place_at = [](const FrameHeader&) {
      ADD_FAILURE() << "asked for a place";
      return MutableBytes();
    };
    FrameStream out(pipe, receiver, stranger, false), in(pipe, receiver, kReceiver, false);
    out.send({.type = FrameType::data}, pattern(100, 1));
    ASSERT_TRUE(out.flush());
    const auto read = in.receive();
    ASSERT_FALSE(read);
    EXPECT_NE(read.error().what.find("on the link to rank 0 of job b, generation 3"),
              std::string::npos)
        << read.error().what;
    EXPECT_TRUE(receiver.heard.empty());
  }
}

TEST(FrameStream, FramesOfKindsThatTheStreamDoesNotKnowAreRefusedBeforeAPlaceIsAskedFor) {
  StreamIdentity own_alone = kReceiver;
  own_alone.kinds = &kTransportKinds;
  Pipe pipe;
  Receiver receiver;
  receiver.place_at = [](const FrameHeader& header) {
    EXPECT_EQ(header.type, FrameType::data);
    return MutableBytes();
  };
  FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, own_alone, false);
  out.send({.type = FrameType::data}, pattern(100, 1));
  out.send({.type = test::kShortFrame}, pattern(100, 1));
  ASSERT_TRUE(out.flush());
  const auto read = in.receive();
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().what, "malformed frame: unknown type 100");
  EXPECT_EQ(receiver.heard.size(), 1u);
}

TEST(FrameStream, PayloadsLandWhereTheReceiverSays) {
  Pipe pipe;
  Receiver receiver;
  std::vector<std::byte> target(5000);
  receiver.place_at = [&](const FrameHeader& h) {
    return h.type == FrameType::data ? MutableBytes(target) : MutableBytes();
  };
  FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, kReceiver, false);
  const auto payload = pattern(5000, 4);
  out.send({.type = FrameType::data}, payload);
  ASSERT_TRUE(out.flush());
  ASSERT_TRUE(in.receive());
  EXPECT_EQ(target, payload);
}

TEST(FrameStream, APlaceOfAnotherSizeThanThePayloadEndsTheStream) {
  for (const std::size_t size : {0u, 99u, 101u}) {
    Pipe pipe;
    Receiver receiver;
    std::vector<std::byte> target(100);
    receiver.place_at = [&](const FrameHeader&) { return MutableBytes(target); };
    FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, kReceiver, false);
    out.send({.type = FrameType::data}, pattern(size, 1));
    ASSERT_TRUE(out.flush());
    EXPECT_EQ(in.receive().error().what,
              std::to_string(size) + " bytes came where 100 were expected");
  }
}

TEST(FrameStream, TheListenerIsToldOfEachFrameOnceAndInOrder) {
  Pipe pipe;
  Receiver receiver;
  Listener listener;
  FrameStream out(pipe, receiver, kSender, false);
  const auto payload = pattern(300, 1);
  for (std::uint64_t i = 0; i < 30; ++i) out.send({.type = FrameType::data}, payload, &listener, i);
  pipe.portion = [] { return std::size_t{97}; };
  for (std::uint64_t i = 0; i < 30; ++i) {
    while (listener.cookies.size() <= i) ASSERT_TRUE(out.flush());
  }
  std::vector<std::uint64_t> all(30);
  for (std::uint64_t i = 0; i < 30; ++i) all[i] = i;
  EXPECT_EQ(listener.cookies, all);
  EXPECT_FALSE(out.has_unsent());
}

// A channel that brings the same frame again and again.
class Spring final : public ByteChannel {
 public:
  explicit Spring(RawFrameHeader frame) : frame_(frame) {}
  Result<std::size_t> read(MutableBytes into) override {
    for (std::byte& b : into) b = frame_[at_++ % frame_.size()];
    return into.size();
  }
  Result<std::size_t> write(std::span<const Bytes>) override { return std::size_t{0}; }

 private:
  RawFrameHeader frame_;
  std::size_t at_ = 0;
};

TEST(FrameStream, APeerThatNeverPausesDoesNotKeepTheDriverForEver) {
  Spring spring(
      encode(FrameHeader{.type = FrameType::taken, .job = 11, .generation = 3, .source = 0}));
  Receiver receiver;
  FrameStream in(spring, receiver, kReceiver, false);
  EXPECT_TRUE(in.receive().value()) << "and says that there is more";
  EXPECT_FALSE(receiver.heard.empty());
}

TEST(FrameStream, FramesThatCameTogetherTakeOneRead) {
  Pipe pipe;
  int reads = 0;
  Receiver receiver;
  FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, kReceiver, false);
  const auto payload = pattern(8, 1);
  for (int i = 0; i < 20; ++i) out.send({.type = FrameType::data}, payload);
  ASSERT_TRUE(out.flush());
  pipe.portion = [&reads] {
    ++reads;
    return ~std::size_t{0};
  };
  EXPECT_TRUE(in.receive().value());
  EXPECT_EQ(receiver.heard.size(), 20u);
  EXPECT_EQ(reads, 1);
}

TEST(FrameStream, WhatWasReadAheadIsHandedOverBeforeOthersGetTheirTurn) {
  Pipe pipe;
  Receiver receiver;
  FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, kReceiver, false);
  // The turn of eight megabytes ends within the short frames, which are read together. The
  // poller hears nothing of bytes that have left the channel.
  for (const std::size_t size : {kLongestPayload, kLongestPayload - 200})
    out.send({.type = FrameType::data}, pattern(size, 1));
  for (int i = 0; i < 20; ++i) out.send({.type = FrameType::data}, pattern(8, 1));
  ASSERT_TRUE(out.flush());
  EXPECT_TRUE(in.receive().value());
  EXPECT_TRUE(pipe.bytes.empty());
  EXPECT_EQ(receiver.heard.size(), 22u);
}

TEST(FrameStream, AShortFrameOfOneGroupOvertakesLongOnesOfAnother) {
  Pipe pipe;
  Receiver receiver;
  FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, kReceiver, false);
  Queued queued(out);
  out.send({.type = test::kShortFrame, .group = 2}, pattern(4, 2));
  EXPECT_EQ(out.unsent_frames(), Queued::kLong + 1);
  ASSERT_TRUE(out.flush());
  ASSERT_TRUE(in.receive());
  ASSERT_EQ(receiver.heard.size(), Queued::kLong + 1);
  const auto found = std::ranges::find(receiver.heard, 2u, [](auto& h) { return h.header.group; });
  std::size_t bytes_before = 0;
  for (auto frame = receiver.heard.begin(); frame != found; ++frame)
    bytes_before += frame->payload.size();
  EXPECT_LE(bytes_before, (1u << 20) + 2 * queued.payload.size())
      << "of " << Queued::kLong * queued.payload.size();
}

TEST(FrameStream, FramesOfEachGroupKeepTheirOrderHoweverManyTakeTurns) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SeededNumbers numbers(test::seed(seed));
    Pipe pipe;
    Receiver receiver;
    FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, kReceiver, false);
    std::map<std::uint32_t, std::vector<std::uint64_t>> sent, heard;
    pipe.portion = [&] { return numbers.below(400000); };
    for (std::uint64_t i = 0; i < 200; ++i) {
      const auto group = static_cast<std::uint32_t>(numbers.below(4));
      const std::size_t size = numbers.below(2) == 0 ? numbers.below(100) : numbers.below(200000);
      out.send({.type = FrameType::data, .sequence = i, .group = group}, pattern(size, i));
      sent[group].push_back(i);
      if (numbers.below(4) == 0) {
        ASSERT_TRUE(out.flush(numbers.below(300000)));
      }
    }
    while (out.has_unsent() || !pipe.bytes.empty()) {
      ASSERT_TRUE(out.flush());
      ASSERT_TRUE(in.receive());
    }
    EXPECT_EQ(out.unsent_frames(), 0u);
    for (const Heard& frame : receiver.heard) {
      heard[frame.header.group].push_back(frame.header.sequence);
      EXPECT_EQ(frame.payload, pattern(frame.payload.size(), frame.header.sequence));
    }
    EXPECT_EQ(heard, sent) << "seed " << seed;
  }
}

TEST(FrameStream, AGoodbyeStaysBehindAllGroups) {
  for (const FrameType last : {FrameType::goodbye, FrameType::withdraw}) {
    Pipe pipe;
    Receiver receiver;
    FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, kReceiver, false);
    Queued queued(out);
    out.send({.type = test::kShortFrame, .group = 2}, {});
    out.send({.type = last}, {});
    ASSERT_TRUE(out.flush());
    ASSERT_TRUE(in.receive());
    ASSERT_EQ(receiver.heard.size(), Queued::kLong + 2);
    EXPECT_EQ(receiver.heard.back().header.type, last);
  }
}

TEST(FrameStream, AFlushEndsWithTheWriteThatReachesItsBound) {
  Pipe pipe;
  Receiver receiver;
  FrameStream out(pipe, receiver, kSender, false);
  Queued queued(out);
  std::size_t flushes = 0;
  for (; out.has_unsent(); ++flushes) {
    const std::size_t before = pipe.bytes.size();
    EXPECT_TRUE(out.flush(100 << 10).value());
    EXPECT_LE(pipe.bytes.size() - before, (100u << 10) + 5 * (queued.payload.size() + 64));
  }
  EXPECT_GT(flushes, 10u);
  EXPECT_EQ(queued.listener.cookies.size(), Queued::kLong);
}

TEST(FrameStream, TheEndOfTheChannelIsToldAfterAllFrames) {
  Pipe pipe;
  Receiver receiver;
  FrameStream out(pipe, receiver, kSender, false), in(pipe, receiver, kReceiver, false);
  const auto sent = send_mixed(out, 10, 1);
  ASSERT_TRUE(out.flush());
  pipe.end = Failure{Fault::peer_lost, "closed", {}};
  EXPECT_TRUE(in.receive().value()) << "and says that there may be more";
  EXPECT_EQ(in.receive().error().what, "closed");
  EXPECT_EQ(receiver.heard, sent);
}

}  // namespace
}  // namespace paceline::transport::testing
