#include "paceline/core/compress/payload/message.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::compress {
namespace {

std::vector<std::byte> sealed(MessageHeader header, Bytes payload) {
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  std::vector<std::byte> message(message_bytes(payload.size()), std::byte{0xEE});
  if (!payload.empty())
    std::memcpy(message.data() + MessageHeader::kBytes, payload.data(), payload.size());
  seal(header, message);
  return message;
}

std::vector<std::byte> random_bytes(SeededNumbers& numbers, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(numbers.below(256));
  return bytes;
}

const MessageHeader kHeader{.codec = 3,
                            .dtype = Dtype::f32,
                            .flags = MessageHeader::kOverflow,
                            .tensor = 7,
                            .step = 9,
                            .elements = 5};

TEST(CompressedMessage, HasTheSpecificationsBytes) {
  const std::string_view text = "hello";
  const auto message = sealed(kHeader, std::as_bytes(std::span(text)));
  std::string hex;
  for (const std::byte b : message) hex += fmt::format("{:02x}", static_cast<int>(b));
  EXPECT_EQ(hex,
            "44544331030201000700000009000000050000000000000005000000b0ba4a0068656c6c6f"
            "000000")
      << "the specification's model, and 3 bytes to a multiple of 8";
}

TEST(CompressedMessage, SeveralOfABufferAreReadOneAfterTheOther) {
  SeededNumbers numbers(test::seed(1));
  std::vector<std::byte> buffer;
  std::vector<std::vector<std::byte>> payloads;
  for (std::size_t i = 0; i < 40; ++i) {
    payloads.push_back(random_bytes(numbers, i));
    MessageHeader header = kHeader;
    header.tensor = static_cast<std::uint32_t>(i);
    const auto message = sealed(header, payloads.back());
    buffer.insert(buffer.end(), message.begin(), message.end());
  }
  Bytes rest = buffer;
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    EXPECT_EQ((buffer.size() - rest.size()) % 8, 0u);
    const auto message = open(rest);
    ASSERT_TRUE(message) << message.error().what;
    EXPECT_EQ(message.value().header.tensor, i);
    EXPECT_EQ(message.value().header.elements, kHeader.elements);
    EXPECT_TRUE(std::ranges::equal(message.value().payload, payloads[i]));
    rest = message.value().rest;
  }
  EXPECT_TRUE(rest.empty());
}

TEST(CompressedMessage, WithAnyBitTurnedIsRefused) {
  SeededNumbers numbers(test::seed(2));
  const auto good = sealed(kHeader, random_bytes(numbers, 24));
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(open(bad)) << "bit " << bit;
  }
}

TEST(CompressedMessage, CutOffAnywhereOrRandomIsRefused) {
  SeededNumbers numbers(test::seed(3));
  const auto good = sealed(kHeader, random_bytes(numbers, 24));
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(open(Bytes(good).first(length))) << length;
  for (int i = 0; i < 2000; ++i) EXPECT_FALSE(open(random_bytes(numbers, numbers.below(100))));
}

TEST(CompressedMessage, OfAnUnknownElementTypeIsRefused) {
  MessageHeader header = kHeader;
  header.dtype = static_cast<Dtype>(99);
  const auto refused = open(sealed(header, {}));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("element type 99"), std::string::npos);
}

}  // namespace
}  // namespace paceline::compress
