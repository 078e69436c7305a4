#include "paceline/core/compress/payload/binned_signs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "paceline/core/base/seed.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::compress {
namespace {

BinnedSigns drawn(SeededNumbers& numbers, std::size_t elements) {
  BinnedSigns signs{.scale = 0.5F};
  for (std::uint32_t i = 0; i < elements; ++i) {
    if (numbers.below(4) == 0) signs.elements.push_back({i, numbers.below(2) == 0});
  }
  return signs;
}

std::vector<std::byte> written(const BinnedSigns& signs, std::size_t elements, std::size_t bin) {
  std::vector<std::byte> payload(binned_bytes(elements, bin, signs.elements.size()));
  write_binned(signs, elements, bin, payload);
  return payload;
}

TEST(BinnedSigns, ComeBackAsTheyWereWhateverTheBins) {
  SeededNumbers numbers(test::seed(3));
  for (const std::size_t bin : {1ul, 2ul, 50ul, 127ul, 128ul, 500ul, kLongestBin}) {
    for (const std::size_t elements : {0ul, 1ul, 49ul, 50ul, 51ul, 1003ul}) {
      const BinnedSigns signs = drawn(numbers, elements);
      const auto payload = written(signs, elements, bin);
      const BinnedSigns back = read_binned(payload, elements, bin).value();
      EXPECT_EQ(back.scale, signs.scale);
      std::vector<float> expected(elements), got(elements);
      add_to(signs, expected);
      add_to(back, got);
      EXPECT_EQ(got, expected) << elements << " elements in bins of " << bin;
    }
  }
}

TEST(BinnedSigns, HaveTheBytesOfTheirPage) {
  const auto payload = written({1, {{0, false}, {2, true}, {4, true}}}, 5, 3);
  const std::vector<int> expected = {0, 0, 0x80, 0x3f, 2, 1, 0, 5, 3};
  ASSERT_EQ(payload.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(std::to_integer<int>(payload[i]), expected[i]) << i;
}

TEST(BinnedSigns, CutOffOrWrongInsideAreRefused) {
  const auto good = written({1, {{0, false}, {2, true}, {4, true}}}, 5, 3);
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(read_binned(Bytes(good).first(length), 5, 3)) << length;
  const auto refused = [&](std::size_t at, int value) {
    auto bad = good;
    bad[at] = static_cast<std::byte>(value);
    return !read_binned(bad, 5, 3);
  };
  EXPECT_TRUE(refused(3, 0xbf)) << "a negative scale";
  EXPECT_TRUE(refused(3, 0x7f)) << "infinity: 1 with the highest exponent";
  EXPECT_TRUE(refused(4, 3)) << "more than there are";
  EXPECT_TRUE(refused(4, 1)) << "less than there are";
  EXPECT_TRUE(refused(7, 0)) << "a place twice";
  EXPECT_TRUE(refused(7, 6)) << "behind the bin";
  EXPECT_TRUE(refused(8, 4)) << "behind the last, shorter bin";
}

TEST(BinnedSigns, SurviveAnyBytes) {
  SeededNumbers numbers(test::seed(6));
  for (int round = 0; round < (test::is_nightly() ? 200000 : 5000); ++round) {
    const std::size_t elements = numbers.below(100), bin = 1 + numbers.below(200);
    auto payload = written(drawn(numbers, elements), elements, bin);
    for (std::byte& byte : payload) {
      if (numbers.below(payload.size()) < 2) byte = static_cast<std::byte>(numbers.below(256));
    }
    const auto back = read_binned(payload, elements, bin);
    if (!back) continue;
    std::vector<float> values(elements);
    add_to(back.value(), values);  // no place is beyond them
    EXPECT_TRUE(std::isfinite(back.value().scale));
  }
}

}  // namespace
}  // namespace paceline::compress
