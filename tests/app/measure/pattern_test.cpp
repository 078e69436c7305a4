#include "paceline/app/measure/pattern.h"

#include <gtest/gtest.h>

#include <vector>

#include "paceline/core/base/reduce.h"

namespace paceline::measure {
namespace {

constexpr Dtype kAll[] = {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i64,
                          Dtype::i32, Dtype::i16, Dtype::i8,  Dtype::u8,   Dtype::boolean};

std::vector<std::byte> data_of(const Pattern& pattern, Dtype dtype, int source, std::size_t count,
                               std::size_t from = 0) {
  std::vector<std::byte> bytes(count * size_of(dtype));
  pattern.fill(bytes, source, from);
  return bytes;
}

TEST(Pattern, AddsUpExactlyInEveryTypeInRankOrder) {
  for (const Dtype dtype : kAll) {
    for (const int ranks : {1, 2, 3, 17, 40, 200}) {
      const Pattern pattern(dtype, ranks, 5);
      auto sum = data_of(pattern, dtype, 0, 2000);
      for (int rank = 1; rank < ranks; ++rank)
        reduce(ReduceOp::sum, dtype, sum, data_of(pattern, dtype, rank, 2000), sum);
      EXPECT_EQ(pattern.wrong(sum, Pattern::kSumOfAll, 0), 0U) << name_of(dtype) << " " << ranks;
    }
  }
}

TEST(Pattern, IsOneSequenceWhereverItIsLookedAt) {
  const Pattern pattern(Dtype::f32, 3, 1);
  const auto whole = data_of(pattern, Dtype::f32, 2, 5000);
  for (const std::size_t from : {0, 1, 60, 61, 975, 976, 977, 4999})
    EXPECT_EQ(pattern.wrong(Bytes(whole).subspan(from * 4), 2, from), 0U) << from;
}

TEST(Pattern, TellsEveryWrongElement) {
  const Pattern pattern(Dtype::f32, 2, 3);
  auto data = data_of(pattern, Dtype::f32, 1, 3000);
  for (const std::size_t at : {0, 1500, 2999}) data[at * 4 + 3] ^= std::byte{0x80};
  EXPECT_EQ(pattern.wrong(data, 1, 0), 3U);
}

TEST(Pattern, HasOtherValuesInTheNextIterationAndForTheNextRank) {
  for (const Dtype dtype : kAll) {
    for (const int ranks : {2, 64}) {
      const auto data = data_of(Pattern(dtype, ranks, 7), dtype, 0, 100);
      EXPECT_EQ(Pattern(dtype, ranks, 8).wrong(data, 0, 0), 100U) << name_of(dtype);
      EXPECT_EQ(Pattern(dtype, ranks, 7).wrong(data, 1, 0), 100U) << name_of(dtype);
    }
  }
}

TEST(Pattern, IsNotTheSameWhenShifted) {
  const Pattern pattern(Dtype::i32, 2, 0);
  const auto data = data_of(pattern, Dtype::i32, 0, 1000);
  for (std::size_t by = 1; by < 61; ++by) EXPECT_GT(pattern.wrong(data, 0, by), 0U) << by;
}

}  // namespace
}  // namespace paceline::measure
