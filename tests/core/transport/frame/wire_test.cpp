#include "paceline/core/transport/frame/wire.h"

#include <gtest/gtest.h>

namespace paceline::transport {
namespace {

enum class Colour : std::uint8_t { red = 1, blue = 2 };

TEST(Wire, WhatIsWrittenIsReadBack) {
  WireWriter w;
  w.integer(std::uint8_t{7})
      .integer(std::int32_t{-5})
      .integer(std::uint64_t{1} << 63)
      .integer(Colour::blue);
  w.real(-0.5).text("rank").text("").raw(bytes_of(std::uint16_t{513}));
  WireReader r(w.bytes());
  EXPECT_EQ(r.integer<std::uint8_t>(), 7);
  EXPECT_EQ(r.integer<std::int32_t>(), -5);
  EXPECT_EQ(r.integer<std::uint64_t>(), std::uint64_t{1} << 63);
  EXPECT_EQ(r.integer<Colour>(), Colour::blue);
  EXPECT_EQ(r.real(), -0.5);
  EXPECT_EQ(r.text(4), "rank");
  EXPECT_EQ(r.text(0), "");
  EXPECT_EQ(r.rest().size(), 2u);
  EXPECT_FALSE(r.ok_and_empty());
  EXPECT_EQ(r.raw(2)[0], std::byte{1});  // little-endian
  EXPECT_TRUE(r.ok_and_empty());
}

TEST(Wire, AReaderNeverGoesPastTheEndAndSaysSo) {
  const auto whole = WireWriter().text("a name").integer(std::uint64_t{9}).bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    WireReader r(Bytes(whole).first(length));
    r.text(100);
    r.integer<std::uint64_t>();
    EXPECT_FALSE(r.ok()) << length;
    EXPECT_EQ(r.integer<std::uint32_t>(), 0u);
    EXPECT_TRUE(r.raw(1).empty());
    EXPECT_FALSE(r.ok_and_empty());
  }
}

TEST(Wire, ATextThatSaysItIsLongerThanAllowedIsRefused) {
  const auto bytes = WireWriter().text("12345").bytes();
  EXPECT_EQ(WireReader(bytes).text(5), "12345");
  WireReader r(bytes);
  EXPECT_EQ(r.text(4), "");
  EXPECT_FALSE(r.ok());
  const auto lie = WireWriter().integer(~std::uint32_t{0}).bytes();
  WireReader huge(lie);
  EXPECT_EQ(huge.text(~std::size_t{0}), "");
  EXPECT_FALSE(huge.ok());
}

}  // namespace
}  // namespace paceline::transport
