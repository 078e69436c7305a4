#include "paceline/core/compress/codecs/qsgd.h"

#include <gtest/gtest.h>

#include <limits>

#include "paceline/core/base/seed.h"
#include "tests/support/gradients.h"
#include "tests/support/seed.h"

namespace paceline::compress {
namespace {

using test::encoded, test::gradient;

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kCounts[] = {0, 1, 7, 511, 513, 1003};

TEST(Qsgd, WritesAndReadsTheModelsBytes) {
  struct Row {
    int bits;
    std::size_t bucket;
    Norm norm;
    std::uint32_t payloads, values;
  };
  const Row rows[] = {
      {2, 64, Norm::max, 0x7c80e6eb, 0x0273391c},  {2, kAll, Norm::max, 0xc29feaec, 0xed83697e},
      {3, 7, Norm::l2, 0x80431d4b, 0x589fbde2},    {4, 512, Norm::l2, 0xdc81e512, 0xa41f1e8a},
      {4, 1, Norm::max, 0x68bce2e1, 0x48981812},   {5, 64, Norm::l2, 0x8434e7cc, 0xab961c78},
      {6, 513, Norm::max, 0xea225b79, 0x975825b6}, {7, 512, Norm::l2, 0x48dfafb0, 0x3acf69ab},
      {8, 512, Norm::max, 0x48df1bd7, 0x586cbdf6}, {8, 512, Norm::l2, 0xbc03c186, 0x8aa89a05},
      {8, kAll, Norm::l2, 0x39a658e8, 0xbd51984e},
  };
  const EncodeContext occasion{.seed = 0x1122334455667788, .tensor = 77, .step = 5, .rank = 3};
  for (const Row& row : rows) {
    const auto codec = qsgd_codec({row.bits, row.bucket, row.norm});
    std::uint32_t payloads = 0, values = 0;
    for (const std::size_t n : kCounts) {
      const auto payload = encoded(*codec, gradient(n, n + 1), occasion);
      payloads = test::checksum(payload, payloads);
      values = test::checksum(test::decoded(*codec, payload, n), values);
    }
    EXPECT_EQ(payloads, row.payloads) << row.bits << " bits, buckets of " << row.bucket;
    EXPECT_EQ(values, row.values) << row.bits << " bits, buckets of " << row.bucket;
  }
}

TEST(Qsgd, TakesTheSpecificationsBytes) {
  for (const int bits : {2, 4, 8}) {
    for (const std::size_t bucket : {1, 64, 512}) {
      for (const std::size_t n : kCounts) {
        const std::size_t buckets = (n + bucket - 1) / bucket,
                          bit_count = n * static_cast<std::size_t>(bits);
        EXPECT_EQ(qsgd_codec({bits, bucket, Norm::max})->longest_payload(n),
                  4 * buckets + (bit_count + 7) / 8);
      }
    }
  }
  EXPECT_EQ(int8_codec()->longest_payload(1000), 4u * 2 + 1000);
  EXPECT_EQ(terngrad_codec()->longest_payload(1000), 4u + 250);
}

TEST(Qsgd, HasInt8AndTerngradAsSettings) {
  const auto values = gradient(2000, 1);
  EXPECT_EQ(encoded(*int8_codec(), values), encoded(*qsgd_codec({8, 512, Norm::max}), values));
  EXPECT_EQ(encoded(*terngrad_codec(), values), encoded(*qsgd_codec({2, 2000, Norm::max}), values));
}

TEST(Qsgd, TellsOfNormsThatOverflow) {
  const std::vector<float> huge(4, 3e38f);
  EXPECT_FALSE(encoded(*int8_codec(), huge).empty());
  EXPECT_TRUE(encoded(*qsgd_codec(), huge).empty());
}

// Decoded values must be finite, so a payload with the next larger norm would be malformed.
TEST(Qsgd, TellsOfNormsWhoseHighestLevelOverflows) {
  for (const int bits : {2, 3, 4, 5, 6, 7, 8}) {
    const auto codec = qsgd_codec({bits, 4, Norm::max});
    const std::vector<float> largest(4, std::numeric_limits<float>::max());
    const auto payload = encoded(*codec, largest);
    if (payload.empty()) continue;
    for (const float value : test::decoded(*codec, payload, 4)) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Qsgd, RefusesNormsLevelsAndRestsThatItNeverWrites) {
  const auto codec = qsgd_codec({3, 8, Norm::max});
  const auto good = encoded(*codec, gradient(9, 1));
  std::vector<float> values(9);
  ASSERT_TRUE(codec->decode(good, values));
  for (const float norm : {-1.0f, -0.0f, INFINITY, NAN}) {
    auto bad = good;
    std::memcpy(bad.data() + 4, &norm, sizeof norm);
    const auto refused = codec->decode(bad, values);
    ASSERT_FALSE(refused) << norm;
    EXPECT_NE(refused.error().what.find("the norm of a bucket"), std::string::npos);
  }
  auto bad = good;
  bad[8] = (bad[8] & std::byte{0xf8}) | std::byte{4};  // -4 of levels -3 .. 3
  EXPECT_FALSE(codec->decode(bad, values));
  bad = good;
  bad.back() |= std::byte{0x80};  // after the 27 bits of 9 levels
  EXPECT_FALSE(codec->decode(bad, values));
}

TEST(Qsgd, RefusesSettingsOutOfRange) {
  EXPECT_THROW(qsgd_codec({.bits = 1}), Error);
  EXPECT_THROW(qsgd_codec({.bits = 9}), Error);
  EXPECT_THROW(qsgd_codec({.bucket = 0}), Error);
}

TEST(LevelBits, AreALittleEndianStreamOfTwosComplement) {
  SeededNumbers numbers(test::seed(1));
  for (int bits = 2; bits <= 8; ++bits) {
    const std::uint64_t top = (1u << (bits - 1)) - 1;
    for (std::size_t count = 0; count <= 70; ++count) {
      std::vector<std::int8_t> levels(count), back(count);
      for (auto& level : levels)
        level = static_cast<std::int8_t>(static_cast<int>(numbers.below(2 * top + 1)) -
                                         static_cast<int>(top));
      std::vector<std::byte> packed(level_bytes(count, bits)), expected(packed.size());
      for (std::size_t i = 0; i < count * static_cast<std::size_t>(bits); ++i) {
        const auto width = static_cast<std::size_t>(bits);
        const int bit = levels[i / width] >> i % width & 1;
        expected[i / 8] |= static_cast<std::byte>(bit << i % 8);
      }
      pack_levels(levels, bits, packed);
      ASSERT_EQ(packed, expected) << count << " of " << bits << " bits";
      ASSERT_TRUE(unpack_levels(packed, bits, back));
      ASSERT_EQ(back, levels);
    }
  }
}

}  // namespace
}  // namespace paceline::compress
