#include "paceline/core/base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace paceline {
namespace {

TEST(Buffer, ViewsTheElementsOfAnyContiguousRange) {
  std::vector<float> vector(5);
  std::array<std::int64_t, 3> array{};
  double plain[2] = {};
  EXPECT_EQ(buffer_of(vector).data, reinterpret_cast<std::byte*>(vector.data()));
  EXPECT_EQ(buffer_of(vector).count, 5u);
  EXPECT_EQ(buffer_of(vector).dtype, Dtype::f32);
  EXPECT_EQ(buffer_of(array).count, 3u);
  EXPECT_EQ(buffer_of(array).dtype, Dtype::i64);
  EXPECT_EQ(buffer_of(plain).count, 2u);
  EXPECT_EQ(buffer_of(plain).dtype, Dtype::f64);
}

TEST(Buffer, SharesTheMemoryThatItViews) {
  std::vector<std::uint8_t> values{1, 2, 3};
  buffer_of(values).bytes()[1] = std::byte{9};
  EXPECT_EQ(values[1], 9);
}

TEST(Buffer, CountsBytesByItsElementType) {
  std::vector<double> values(7);
  EXPECT_EQ(buffer_of(values).size_bytes(), 56u);
  EXPECT_EQ(buffer_of(values).bytes().size(), 56u);
  EXPECT_EQ(const_buffer_of(values).size_bytes(), 56u);
  EXPECT_EQ(const_buffer_of(values).bytes().size(), 56u);
  EXPECT_EQ(Buffer{}.size_bytes(), 0u);
  EXPECT_TRUE(Buffer{}.bytes().empty());
}

TEST(Buffer, BecomesAConstBufferOfTheSameElements) {
  std::vector<float> values(5);
  Buffer buffer = buffer_of(values);
  buffer.memory = {.kind = Memory::Kind::cuda, .device = 2};
  const ConstBuffer constant = buffer;
  EXPECT_EQ(constant.data, buffer.data);
  EXPECT_EQ(constant.count, buffer.count);
  EXPECT_EQ(constant.dtype, buffer.dtype);
  EXPECT_EQ(constant.memory, buffer.memory);
}

TEST(Bytes, OfAValueAreItsMemory) {
  const std::uint32_t value = 0x01020304;
  EXPECT_EQ(bytes_of(value).size(), 4u);
  EXPECT_EQ(static_cast<const void*>(bytes_of(value).data()), &value);
}

}  // namespace
}  // namespace paceline
