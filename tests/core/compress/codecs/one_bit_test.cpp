#include "paceline/core/compress/codecs/one_bit.h"

#include <gtest/gtest.h>

#include "paceline/core/compress/codecs/ef_sign.h"
#include "tests/support/gradients.h"

namespace paceline::compress {
namespace {

using test::encoded, test::gradient, test::there_and_back;

TEST(OneBit, WritesAndReadsTheModelsBytes) {
  struct Row {
    std::size_t columns;
    std::uint32_t payload, values;
  };
  const Row rows[] = {{1, 0x3fa4fc7b, 0x11e0f80d},
                      {17, 0x7bf87266, 0xd24360e3},
                      {59, 0x805e0524, 0x348ce422},
                      {1003, 0x3f1ff2fa, 0xdaefc82b}};
  for (const Row& row : rows) {
    const auto codec = one_bit_codec(row.columns);
    const auto payload = encoded(*codec, gradient(1003, 1));
    EXPECT_EQ(payload.size(), 8 * row.columns + 126);
    EXPECT_EQ(test::checksum(payload), row.payload) << row.columns << " columns";
    EXPECT_EQ(test::checksum(test::decoded(*codec, payload, 1003)), row.values);
  }
}

TEST(OneBit, KeepsTheSumsOfColumns) {
  for (const std::size_t columns : {1, 3, 17, 100}) {
    const auto values = gradient(columns * 61, columns);
    const auto back = there_and_back(*one_bit_codec(columns), values);
    for (std::size_t c = 0; c < columns; ++c) {
      double lost = 0;
      for (std::size_t i = c; i < values.size(); i += columns)
        lost += static_cast<double>(values[i]) - back[i];
      EXPECT_NEAR(lost, 0, 1e-5);
    }
  }
}

TEST(OneBit, LosesNoMoreThanOneScaleForAllDoes) {
  for (const std::size_t columns : {1, 17, 59}) {
    const auto values = gradient(1003, 5);
    const double lost =
        test::squared_distance(values, there_and_back(*one_bit_codec(columns), values));
    EXPECT_LE(lost, test::squared_distance(values, there_and_back(*ef_sign_codec(), values)));
  }
}

TEST(OneBit, HasAMeanOfZeroForASignThatAColumnLacks) {
  const std::vector<float> ones(34, 1), minus(34, -1);
  EXPECT_EQ(there_and_back(*one_bit_codec(17), ones), ones);
  EXPECT_EQ(there_and_back(*one_bit_codec(17), minus), minus);
}

TEST(OneBit, RefusesWhatIsNoMatrixOfItsColumns) {
  EXPECT_THROW(one_bit_codec(0), Error);
  EXPECT_THROW((void)encoded(*one_bit_codec(17), gradient(16, 1)), Error);
  const auto codec = one_bit_codec(3);
  std::vector<float> values(4);
  EXPECT_FALSE(codec->decode(std::vector<std::byte>(codec->longest_payload(4)), values));
}

TEST(OneBit, RefusesMeansThatItNeverWrites) {
  const auto codec = one_bit_codec(1);
  std::vector<float> values(8);
  const auto good = encoded(*codec, gradient(8, 1));
  for (const auto& [high, low] :
       {std::pair{-1.0f, -1.0f}, {1.0f, 1.0f}, {INFINITY, 0.0f}, {0.0f, NAN}}) {
    auto bad = good;
    std::memcpy(bad.data(), &high, sizeof high);
    std::memcpy(bad.data() + 4, &low, sizeof low);
    EXPECT_FALSE(codec->decode(bad, values)) << high << ", " << low;
  }
}

}  // namespace
}  // namespace paceline::compress
