#include "paceline/core/base/crc32c.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

Bytes bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// One bit at a time, straight from the definition (reflected polynomial 0x82f63b78).
std::uint32_t by_definition(Bytes data) {
  std::uint32_t crc = ~0u;
  for (const std::byte byte : data) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

std::vector<std::byte> any_bytes(std::size_t count, std::uint64_t seed) {
  SeededNumbers numbers(test::seed(seed));
  std::vector<std::byte> data(count);
  for (std::byte& byte : data) byte = static_cast<std::byte>(numbers.next());
  return data;
}

TEST(Crc32c, HasTheKnownValues) {
  EXPECT_EQ(crc32c(bytes("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(bytes("")), 0u);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0})), 0x8A9136AAu);     // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62A8AB43u);  // RFC 3720, B.4
}

TEST(Crc32c, IsTheDefinitionForEveryLengthAndAlignment) {
  const auto data = any_bytes(80, 1);
  for (std::size_t from = 0; from < 9; ++from) {
    for (std::size_t length = 0; from + length <= data.size(); ++length) {
      const Bytes part = Bytes(data).subspan(from, length);
      EXPECT_EQ(crc32c(part), by_definition(part)) << from << " + " << length;
    }
  }
}

TEST(Crc32c, OfLongBytesIsTheDefinitionToo) {
  const auto data = any_bytes(40000, 4);
  for (const std::size_t length : {6143u, 6144u, 6145u, 12287u, 12288u, 18439u, 39990u}) {
    for (std::size_t from = 0; from < 9; from += 4) {
      const Bytes part = Bytes(data).subspan(from, length), front = part.first(length / 3);
      EXPECT_EQ(crc32c(part), by_definition(part)) << from << " + " << length;
      EXPECT_EQ(crc32c(part.subspan(length / 3), crc32c(front)), crc32c(part)) << length;
    }
  }
}

TEST(Crc32c, OfAWholeIsThatOfItsPartsContinued) {
  const auto data = any_bytes(70, 2);
  for (std::size_t cut = 0; cut <= data.size(); ++cut) {
    const Bytes front = Bytes(data).first(cut), back = Bytes(data).subspan(cut);
    EXPECT_EQ(crc32c(back, crc32c(front)), crc32c(data)) << cut;
  }
}

TEST(Crc32c, SeesEverySingleFlippedBit) {
  auto data = any_bytes(40, 3);
  const std::uint32_t whole = crc32c(data);
  for (std::size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(crc32c(data), whole) << bit;
    data[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

}  // namespace
}  // namespace paceline
