#include "paceline/core/observe/protobuf.h"

#include <gtest/gtest.h>

namespace paceline::observe {
namespace {

using namespace std::string_literals;

// The examples of https://protobuf.dev/programming-guides/encoding.
TEST(Protobuf, HasTheBytesOfTheSpecificationsExamples) {
  EXPECT_EQ(ProtobufMessage().integer(1, 150).bytes(), "\x08\x96\x01");
  EXPECT_EQ(ProtobufMessage().text(2, "testing").bytes(), "\x12\x07testing");
  EXPECT_EQ(ProtobufMessage().message(3, ProtobufMessage().integer(1, 150)).bytes(),
            "\x1a\x03\x08\x96\x01");
  EXPECT_EQ(ProtobufMessage().integer(1, static_cast<std::uint64_t>(-2)).bytes(),
            "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST(Protobuf, NumbersAreLittleEndianAndFieldsMayBeLarge) {
  EXPECT_EQ(ProtobufMessage().real(1, 1.0).bytes(), "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f"s);
  EXPECT_EQ(ProtobufMessage().real(2, 1.0F).bytes(), "\x15\x00\x00\x80\x3f"s);
  EXPECT_EQ(ProtobufMessage().integer(16, 0).bytes(), "\x80\x01\x00"s);
}

}  // namespace
}  // namespace paceline::observe
