// Also covers paceline/core/compress/codecs/ef_sign.h.
#include "paceline/core/compress/kernels/sign_bits.h"

#include <gtest/gtest.h>

#include "paceline/core/compress/codecs/ef_sign.h"
#include "tests/support/gradients.h"

namespace paceline::compress {
namespace {

using test::encoded, test::gradient, test::there_and_back;
using ByteRow = std::vector<std::byte>;

ByteRow signs_of(const std::vector<float>& values) {
  ByteRow bits(sign_bytes(values.size()));
  pack_signs(values, bits);
  return bits;
}

std::vector<float> unpacked(Bytes bits, std::size_t count, float magnitude = 1) {
  std::vector<float> values(count);
  unpack_signs(bits, magnitude, values);
  return values;
}

std::vector<float> negative(std::vector<float> values) {
  for (float& value : values) value = -value;
  return values;
}

ByteRow vote(const std::vector<ByteRow>& voters) {
  const std::vector<Bytes> views(voters.begin(), voters.end());
  ByteRow verdict(voters[0].size(), std::byte{0xee});
  majority_vote(views, verdict);
  return verdict;
}

TEST(SignBits, AreTheModels) {
  EXPECT_EQ(signs_of(gradient(11, 3)), (ByteRow{std::byte{0xc6}, std::byte{0x06}}));
  EXPECT_EQ(test::checksum(signs_of(gradient(1003, 1))), 0xde45a603u);
}

TEST(SignBits, AreThoseOfEachValueForEveryCount) {
  for (std::size_t n = 0; n <= 200; ++n) {
    auto values = gradient(n, n);
    for (std::size_t i = 0; i < n; i += 5) values[i] = i % 2 ? 0.0f : -0.0f;
    const auto bits = signs_of(values);
    for (std::size_t i = 0; i < 8 * bits.size(); ++i) {
      const bool bit = static_cast<unsigned>(bits[i / 8]) >> i % 8 & 1;
      ASSERT_EQ(bit, i < n && values[i] >= 0) << i << " of " << n;
    }
    const auto back = unpacked(bits, n, 2.5f);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(back[i], values[i] >= 0 ? 2.5f : -2.5f);
  }
}

TEST(SignBits, GiveTheSumOfMagnitudesBeside) {
  for (const std::size_t n : {0, 1, 15, 16, 17, 4096, 10007}) {
    const auto values = gradient(n, 4);
    ByteRow bits(sign_bytes(n));
    double sum = 0;
    for (const float value : values) sum += std::abs(value);
    EXPECT_NEAR(pack_signs(values, bits), sum, 1e-9 * sum);
  }
}

TEST(SignBits, FromOutsideHaveNothingBehindTheLast) {
  ByteRow bits(2, std::byte{0xff});
  EXPECT_TRUE(are_signs(bits, 16));
  EXPECT_FALSE(are_signs(bits, 9));
  bits[1] = std::byte{1};
  EXPECT_TRUE(are_signs(bits, 9));
}

TEST(MajorityVote, IsTheModels) {
  const std::pair<int, std::uint32_t> rows[] = {{1, 0xde45a603}, {2, 0x04ae68ae}, {3, 0x747106c3},
                                                {4, 0x30a9c3c9}, {7, 0xd6e20b69}, {8, 0xaff5ffe0}};
  for (const auto& [ranks, expected] : rows) {
    std::vector<ByteRow> voters;
    for (int r = 0; r < ranks; ++r)
      voters.push_back(signs_of(gradient(1003, static_cast<std::uint64_t>(r) + 1)));
    EXPECT_EQ(test::checksum(vote(voters)), expected) << ranks << " voters";
  }
}

TEST(MajorityVote, CountsEveryBitAndDoesNotMindTheOrder) {
  for (std::size_t ranks = 1; ranks <= 40; ++ranks) {
    for (const std::size_t n : {0, 1, 7, 8, 9, 64, 1003, 5000}) {
      std::vector<ByteRow> voters, opposite;
      std::vector<std::size_t> yes(n);
      for (std::size_t r = 0; r < ranks; ++r) {
        const auto values = gradient(n, 100 * ranks + r);
        voters.push_back(signs_of(values));
        opposite.push_back(signs_of(negative(values)));
        for (std::size_t i = 0; i < n; ++i) yes[i] += values[i] >= 0;
      }
      const auto verdict = vote(voters);
      const auto signs = unpacked(verdict, n);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(signs[i], 2 * yes[i] >= ranks ? 1 : -1);
      EXPECT_TRUE(are_signs(verdict, n));
      EXPECT_EQ(vote({voters.rbegin(), voters.rend()}), verdict);
      EXPECT_EQ(vote(std::vector(ranks, voters[0])), voters[0]) << "unanimous";
      if (ranks % 2 == 1) {
        EXPECT_EQ(unpacked(vote(opposite), n), negative(signs));
      }
    }
  }
}

TEST(EfSign, WritesAndReadsTheModelsBytes) {
  const auto codec = ef_sign_codec();
  const auto payload = encoded(*codec, gradient(1003, 1));
  EXPECT_EQ(payload.size(), 4u + 126);
  EXPECT_EQ(test::checksum(payload), 0xddd2515du);
  EXPECT_EQ(test::checksum(test::decoded(*codec, payload, 1003)), 0x8b31addfu);
  EXPECT_EQ(encoded(*codec, gradient(11, 3)),
            (ByteRow{std::byte{0xc2}, std::byte{0x56}, std::byte{0x07}, std::byte{0x3e},
                     std::byte{0xc6}, std::byte{0x06}}));
  EXPECT_EQ(encoded(*codec, {}), ByteRow(4));
}

// |a - q|^2 = |a|^2 - |a|_1^2 / N.
TEST(EfSign, LosesJustWhatTheMeanMagnitudeDoesNotHold) {
  for (const std::size_t n : {1, 10, 1003}) {
    const auto values = gradient(n, n);
    double sum = 0;
    for (const float value : values) sum += std::abs(value);
    const double whole = test::squares(values);
    const double lost = test::squared_distance(values, there_and_back(*ef_sign_codec(), values));
    EXPECT_NEAR(lost, whole - sum * sum / static_cast<double>(n), 1e-7 * whole) << n;
  }
}

TEST(EfSign, RefusesScalesAndRestsThatItNeverWrites) {
  const auto codec = ef_sign_codec();
  const auto good = encoded(*codec, gradient(9, 1));
  std::vector<float> values(9);
  for (const float scale : {-1.0f, INFINITY, NAN}) {
    auto bad = good;
    std::memcpy(bad.data(), &scale, sizeof scale);
    EXPECT_FALSE(codec->decode(bad, values)) << scale;
  }
  auto bad = good;
  bad.back() |= std::byte{2};
  EXPECT_FALSE(codec->decode(bad, values));
}

}  // namespace
}  // namespace paceline::compress
