#include "paceline/core/transport/frame/frame.h"

#include <gtest/gtest.h>

#include "paceline/core/base/crc32c.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/transport/frame/wire.h"
#include "tests/core/transport/test_frames.h"
#include "tests/support/seed.h"

namespace paceline::transport {
namespace {

constexpr const FrameKinds& kKnown = test::kTestKinds;

FrameType any_type(SeededNumbers& numbers) {
  for (;;) {
    const auto type = static_cast<FrameType>(numbers.below(256));
    if (kKnown.find(type) != nullptr) return type;
  }
}

FrameHeader any_header(SeededNumbers& numbers) {
  return {.type = any_type(numbers),
          .flags = static_cast<std::uint8_t>(numbers()),
          .job = numbers(),
          .generation = numbers(),
          .sequence = numbers(),
          .length = 0,
          .index = static_cast<std::uint32_t>(numbers()),
          .descriptor = numbers(),
          .group = static_cast<std::uint32_t>(numbers()),
          .source = static_cast<std::uint32_t>(numbers()),
          .payload_crc = static_cast<std::uint32_t>(numbers())};
}

// Changes a field and repairs the checksum, as a buggy or malicious peer would.
RawFrameHeader forged(RawFrameHeader raw, std::size_t at, Bytes value) {
  std::ranges::copy(value, raw.begin() + static_cast<std::ptrdiff_t>(at));
  std::ranges::copy(bytes_of(crc32c(Bytes(raw).first(60))), raw.begin() + 60);
  return raw;
}

TEST(Frame, EveryHeaderComesBackAsItWas) {
  SeededNumbers numbers(test::seed(1));
  for (int i = 0; i < 2000; ++i) {
    const FrameHeader header = any_header(numbers);
    EXPECT_EQ(decode(encode(header), kKnown).value(), header);
  }
}

TEST(Frame, EverySingleFlippedBitOfAHeaderIsRefused) {
  SeededNumbers numbers(test::seed(2));
  for (int i = 0; i < 50; ++i) {
    const RawFrameHeader good = encode(any_header(numbers));
    for (std::size_t bit = 0; bit < 8 * kFrameHeaderBytes; ++bit) {
      RawFrameHeader bad = good;
      bad[bit / 8] ^= std::byte{1} << (bit % 8);
      EXPECT_FALSE(decode(bad, kKnown)) << "bit " << bit;
    }
  }
}

TEST(Frame, RandomHeadersAreRefusedWithAReason) {
  SeededNumbers numbers(test::seed(3));
  for (int i = 0; i < 20000; ++i) {
    RawFrameHeader raw;
    for (std::byte& b : raw) b = static_cast<std::byte>(numbers());
    const RawFrameHeader good = encode(FrameHeader{});
    if (i % 2 == 0) std::ranges::copy(Bytes(good).first(6), raw.begin());
    const auto header = decode(raw, kKnown);
    ASSERT_FALSE(header);
    EXPECT_EQ(header.error().fault, Fault::io);
    EXPECT_NE(header.error().what, "");
  }
}

TEST(Frame, LengthsAboveTheLimitOfTheTypeAreRefused) {
  const auto decoded = [](FrameType type, std::size_t length) {
    return decode(encode({.type = type, .length = static_cast<std::uint32_t>(length)}), kKnown);
  };
  for (int number = 0; number < 256; ++number) {
    const FrameKind* const kind = kKnown.find(static_cast<FrameType>(number));
    if (kind == nullptr) continue;
    EXPECT_TRUE(decoded(kind->type, kind->longest_payload)) << kind->name;
    for (const std::size_t length : {kind->longest_payload + 1, std::size_t{UINT32_MAX}})
      EXPECT_FALSE(decoded(kind->type, length)) << kind->name << " of " << length;
  }
  EXPECT_EQ(
      decoded(FrameType::data, kLongestPayload + 1).error().what,
      "malformed frame: 4194305 bytes of payload in a data frame, which carries at most 4194304");
  EXPECT_EQ(decoded(test::kShortFrame, kLongestPayload).error().what,
            "malformed frame: 4194304 bytes of payload in a short frame, which carries at most "
            "1048576");
  EXPECT_FALSE(decoded(FrameType::goodbye, 1));
}

TEST(Frame, UnknownTypesAndVersionsAreRefusedByName) {
  const auto good = encode(FrameHeader{});
  const auto refusal_of = [](const RawFrameHeader& raw, const FrameKinds& kinds) {
    return decode(raw, kinds).error().what;
  };
  for (const int type : {0, 1, 102, 255}) {
    const auto raw = forged(good, 6, bytes_of(static_cast<std::uint8_t>(type)));
    EXPECT_EQ(refusal_of(raw, kKnown), "malformed frame: unknown type " + std::to_string(type));
  }
  EXPECT_EQ(refusal_of(encode({.type = test::kLongFrame}), kTransportKinds),
            "malformed frame: unknown type 101");
  EXPECT_EQ(
      refusal_of(forged(good, 4, bytes_of(std::uint16_t{999})), kKnown),
      "malformed frame: wire version 999, this build speaks 6; run the same build on all ranks");
}

TEST(Frame, FailuresComeBackAsTheyWere) {
  const Failure failure{Fault::peer_lost, "rank 3 was lost: its process was killed", {3, 0, -1}};
  EXPECT_EQ(decode_failure(encode(failure)), failure);
  EXPECT_EQ(decode_failure(encode(Failure{Fault::refused, "", {}})),
            (Failure{Fault::refused, "", {}}));
}

TEST(Frame, OverlongFailuresAreCutToWhatTheReceiverTakes) {
  const auto raw = encode(Failure{Fault::io, std::string(100000, 'x'), std::vector<int>(10000, 7)});
  EXPECT_LT(raw.size(), kLongestControlPayload);
  const auto back = decode_failure(raw);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->ranks.size(), 4096u);
  EXPECT_EQ(back->what.size(), std::size_t{16} << 10);
}

TEST(Frame, MalformedFailuresAreRefusedAndNeverReadPastTheirEnd) {
  const auto good = encode(Failure{Fault::io, "text", {1, 2}});
  for (std::size_t length = 0; length < good.size(); ++length) {
    const std::vector<std::byte> cut(good.begin(),
                                     good.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_FALSE(decode_failure(cut));
  }
  auto longer = good;
  longer.push_back({});
  EXPECT_FALSE(decode_failure(longer));
  auto unknown = good;
  unknown[0] = std::byte{99};
  EXPECT_FALSE(decode_failure(unknown));
  SeededNumbers numbers(test::seed(4));
  for (int i = 0; i < 20000; ++i) {
    auto bad = good;
    for (int flips = 0; flips < 3; ++flips)
      bad[numbers.below(bad.size())] = static_cast<std::byte>(numbers());
    (void)decode_failure(bad);  // the sanitizers watch
  }
}

}  // namespace
}  // namespace paceline::transport
