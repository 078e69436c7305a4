#include "paceline/core/compress/kernels/long_output.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/support/every_target.h"

namespace paceline::compress {
namespace {

TEST(CopyPastCaches, WritesWhatItIsGivenAndNothingBeside) {
  std::vector<std::byte> from(400);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i % 251 + 1);
  test::for_each_target([&] {
    for (std::size_t offset = 0; offset < 70; ++offset) {
      for (std::size_t count = 0; count < 300; count += 1 + offset % 7) {
        std::vector<std::byte> place(400);
        copy_past_caches(Bytes(from).first(count), std::span(place).subspan(offset, count));
        finish_copies();
        for (std::size_t i = 0; i < place.size(); ++i) {
          const bool inside = offset <= i && i < offset + count;
          ASSERT_EQ(place[i], inside ? from[i - offset] : std::byte{0}) << offset << ", " << count;
        }
      }
    }
  });
}

TEST(DecodeInBlocks, VisitsEveryValueOnceHoweverLong) {
  for (const std::size_t n : {0, 1, 4096, 4097, (1 << 18) - 1, (1 << 18) + 5003}) {
    std::vector<float> place(n + 2);
    const auto values = std::span(place).subspan(1, n);
    ASSERT_TRUE(decode_in_blocks(values, [](std::size_t first, std::span<float> block) {
      EXPECT_EQ(first % 4096, 0u);
      std::iota(block.begin(), block.end(), static_cast<float>(first) + 1);
      return true;
    }));
    std::vector<float> expected(n + 2);
    std::iota(expected.begin() + 1, expected.end() - 1, 1.0f);
    EXPECT_EQ(place, expected) << n;
  }
}

TEST(DecodeInBlocks, EndsAtTheFirstBlockThatIsRefused) {
  for (const std::size_t n : {10000, 1 << 21}) {
    std::vector<float> values(n);
    int calls = 0;
    EXPECT_FALSE(decode_in_blocks(values, [&](std::size_t first, std::span<float>) {
      ++calls;
      return first == 0;
    }));
    EXPECT_EQ(calls, 2);
  }
}

}  // namespace
}  // namespace paceline::compress
