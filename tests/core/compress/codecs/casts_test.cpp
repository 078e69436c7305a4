#include "paceline/core/compress/codecs/casts.h"

#include <gtest/gtest.h>

#include "tests/support/gradients.h"

namespace paceline::compress {
namespace {

using test::encoded, test::gradient, test::there_and_back;

TEST(Casts, WriteTheModelsBytes) {
  EXPECT_EQ(test::checksum(encoded(*cast_codec(Dtype::f16), gradient(1003, 1))), 0x193a4c40u);
  EXPECT_EQ(test::checksum(encoded(*cast_codec(Dtype::bf16), gradient(1003, 1))), 0x925aada1u);
}

TEST(Casts, ErrAtMostHalfAUnitOfTheirLastDigit) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    const auto codec = cast_codec(dtype);
    auto values = gradient(5000, 2);
    for (std::size_t i = 0; i < values.size(); i += 3) values[i] *= 1000;
    const auto back = there_and_back(*codec, values);
    EXPECT_EQ(codec->longest_payload(values.size()), 2 * values.size());
    const float bound = dtype == Dtype::f16 ? 0x1p-11f : 0x1p-8f;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::abs(values[i]) > 1e-4f) {
        ASSERT_LE(std::abs(back[i] - values[i]), bound * std::abs(values[i]));
      }
    }
  }
}

TEST(Casts, TellOfFiniteValuesThatWouldBecomeInfinite) {
  const auto fp16 = cast_codec(Dtype::f16), bf16 = cast_codec(Dtype::bf16);
  EXPECT_EQ(there_and_back(*fp16, {65519}), std::vector<float>{65504});
  EXPECT_TRUE(encoded(*fp16, {65520}).empty());
  EXPECT_TRUE(encoded(*fp16, {-65520}).empty());
  EXPECT_FALSE(encoded(*bf16, {65520}).empty());
  EXPECT_TRUE(encoded(*bf16, {3.4e38f}).empty());
}

TEST(Casts, OfALongTensorAreThoseOfItsParts) {
  const auto some = gradient(5003, 3);
  std::vector<float> values((1 << 21) + 77);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = some[i % some.size()];
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    const auto codec = cast_codec(dtype);
    const auto payload = encoded(*codec, values), part = encoded(*codec, some);
    const auto back = test::decoded(*codec, payload, values.size());
    const auto part_back = test::decoded(*codec, part, some.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t j = i % some.size();
      ASSERT_TRUE(payload[2 * i] == part[2 * j] && payload[2 * i + 1] == part[2 * j + 1]) << i;
      ASSERT_EQ(back[i], part_back[j]) << i;
    }
  }
}

TEST(Casts, RefuseInfinityFromOutside) {
  const std::vector<std::uint16_t> halves = {0, 0x7c00};
  std::vector<float> values(2);
  EXPECT_FALSE(cast_codec(Dtype::f16)->decode(std::as_bytes(std::span(halves)), values));
}

TEST(Casts, AreToHalvesOnly) {
  EXPECT_THROW(cast_codec(Dtype::f64), Error);
}

}  // namespace
}  // namespace paceline::compress
