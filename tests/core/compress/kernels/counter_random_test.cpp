#include "paceline/core/compress/kernels/counter_random.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline::compress {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The answers that the authors' library Random123 publishes for philox4x32-10.
TEST(CounterRandom, IsPhilox) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kAllOnes = 0xffffffff;
  EXPECT_EQ(philox({kAllOnes, kAllOnes, kAllOnes, kAllOnes}, {kAllOnes, kAllOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRandom, HasTheSpecificationsCounterAndKey) {
  RandomStream stream{.seed = 0x1122334455667788,
                      .tensor = 77,
                      .step = 5,
                      .rank = 3,
                      .purpose = RandomStream::Purpose::sample};
  std::vector<std::uint32_t> words(6);
  random_words(stream, 0, words);
  EXPECT_EQ(words, (std::vector<std::uint32_t>{0xae3f9595, 0x5901a33a, 0x581e6762, 0xfc4bc7d7,
                                               0x8a26f327, 0x7916d32e}));
}

TEST(CounterRandom, OfAnElementDoesNotDependOnWhichOthersAreDrawn) {
  const RandomStream stream{.seed = 9, .tensor = 4, .step = 2};
  std::vector<std::uint32_t> all(1000);
  random_words(stream, 0, all);
  for (const std::size_t first : {0, 4, 52, 512, 996}) {
    for (std::size_t count = 0; first + count <= all.size(); count += count < 70 ? 1 : 37) {
      std::vector<std::uint32_t> some(count + 1, 7);
      random_words(stream, first, std::span(some).first(count));
      ASSERT_TRUE(std::equal(some.begin(), some.end() - 1,
                             all.begin() + static_cast<std::ptrdiff_t>(first)))
          << count << " from " << first;
      ASSERT_EQ(some.back(), 7u) << "written beside";
    }
  }
}

TEST(CounterRandom, AtGivenBlocksIsTheirFirstWord) {
  const RandomStream stream{.seed = 9, .tensor = 4, .step = 2};
  std::vector<std::uint32_t> all(1000), blocks = {249, 0, 7, 7, 100, 3, 8, 1, 2, 200, 13};
  random_words(stream, 0, all);
  for (std::size_t count = 0; count <= blocks.size(); ++count) {
    std::vector<std::uint32_t> words(count);
    random_words_at(stream, std::span(blocks).first(count), words);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(words[i], all[4 * blocks[i]]);
  }
}

TEST(CounterRandom, DiffersInWhateverItIsFor) {
  const RandomStream base{.seed = 9, .tensor = 4, .step = 2, .rank = 1};
  std::vector<RandomStream> streams(6, base);
  streams[1].seed += std::uint64_t{1} << 40;
  streams[2].tensor += 1;
  streams[3].step += 1;
  streams[4].rank = RandomStream::kShared;
  streams[5].purpose = RandomStream::Purpose::start;
  std::set<std::vector<std::uint32_t>> seen;
  for (const RandomStream& stream : streams) {
    std::vector<std::uint32_t> words(16);
    random_words(stream, 0, words);
    EXPECT_TRUE(seen.insert(words).second);
  }
}

TEST(CounterRandom, RefusesElementsThatHaveNoNumber) {
  std::vector<std::uint32_t> words(8);
  EXPECT_THROW(random_words({}, 2, words), Error);
  EXPECT_THROW(random_words({}, (std::uint64_t{1} << 34) - 4, words), Error);
}

}  // namespace
}  // namespace paceline::compress
