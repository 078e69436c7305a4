#include "paceline/core/checkpoint/shape.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "paceline/core/base/seed.h"
#include "tests/core/checkpoint/random_boxes.h"
#include "tests/support/seed.h"

namespace paceline::checkpoint {
namespace {

constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();

TEST(Shape, BytesAreToldOrNothingIfTheyDoNotFit) {
  EXPECT_EQ(byte_length({}, Dtype::f64), 8U);
  EXPECT_EQ(byte_length({3, 5}, Dtype::f16), 30U);
  EXPECT_EQ(byte_length({3, 0, kMost}, Dtype::f32), 0U) << "no element at all";
  EXPECT_EQ(byte_length({1ULL << 32, 1ULL << 32}, Dtype::u8), std::nullopt);
  EXPECT_EQ(byte_length({1ULL << 60}, Dtype::f64), std::nullopt);
  EXPECT_EQ(byte_length({(1ULL << 63) - 1}, Dtype::u8), (1ULL << 63) - 1);
  EXPECT_EQ(elements_of({kMost, 1}), kMost);
}

// Counts how often each element of a small tensor is in a box.
bool covers_each_once(const Extents& shape, const std::vector<Box>& boxes) {
  std::vector<int> times(shape[0] * shape[1]);
  for (const Box& box : boxes) {
    for (std::uint64_t i = 0; i < box.shape[0]; ++i) {
      for (std::uint64_t k = 0; k < box.shape[1]; ++k) {
        const std::uint64_t row = box.offset[0] + i, column = box.offset[1] + k;
        if (row >= shape[0] || column >= shape[1]) return false;
        ++times[row * shape[1] + column];
      }
    }
  }
  for (const int count : times)
    if (count != 1) return false;
  return true;
}

// All elements of the box, as their places row after row.
std::vector<std::uint64_t> places_in(const Extents& shape, const Box& box) {
  std::vector<std::uint64_t> places = {0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::uint64_t> more;
    for (const std::uint64_t place : places)
      for (std::uint64_t i = 0; i < box.shape[d]; ++i)
        more.push_back(place * shape[d] + box.offset[d] + i);
    places = more;
  }
  return places;
}

TEST(Shape, ARangeOfElementsIsAFewBoxesThatHoldThemInTheirOrder) {
  SeededNumbers numbers(test::seed(2));
  std::size_t most = 0;
  for (int round = 0; round < 3000; ++round) {
    Extents shape(numbers.below(5));
    for (std::uint64_t& side : shape) side = 1 + numbers.below(5);
    const std::uint64_t all = *elements_of(shape);
    const std::uint64_t begin = numbers.below(all + 1);
    const std::uint64_t end = begin + numbers.below(all - begin + 1);
    const auto boxes = boxes_of_range(shape, begin, end);
    std::vector<std::uint64_t> held;
    for (const Box& box : boxes) {
      ASSERT_TRUE(fit(shape, {box}));
      for (const std::uint64_t place : places_in(shape, box)) held.push_back(place);
    }
    std::vector<std::uint64_t> expected(end - begin);
    std::iota(expected.begin(), expected.end(), begin);
    ASSERT_EQ(held, expected);
    const std::size_t few = shape.empty() ? 1 : 2 * shape.size() - 1;
    ASSERT_LE(boxes.size(), few);
    if (shape.size() == 3) most = std::max(most, boxes.size());
  }
  EXPECT_EQ(most, 5u) << "no range had as many boxes as may be";
}

TEST(Shape, BoxesTileATensorIfEachElementIsInOneOfThem) {
  SeededNumbers numbers(test::seed(1));
  int tiled = 0, refused = 0;
  for (int round = 0; round < 2000; ++round) {
    const Extents shape = {1 + numbers.below(8), 1 + numbers.below(8)};
    std::vector<Box> boxes;
    testing::cut_randomly(numbers, {{0, 0}, shape}, boxes);
    for (std::size_t i = boxes.size(); i > 1; --i) std::swap(boxes[i - 1], boxes[numbers.below(i)]);
    if (numbers.below(2) == 0) {
      Box& changed = boxes[numbers.below(boxes.size())];
      std::uint64_t& number = numbers.below(2) == 0 ? changed.offset[numbers.below(2)]
                                                    : changed.shape[numbers.below(2)];
      number = numbers.below(9);
    }
    const bool expected = covers_each_once(shape, boxes);
    ASSERT_EQ(tile(shape, boxes), expected);
    ++(expected ? tiled : refused);
  }
  EXPECT_GT(tiled, 100);
  EXPECT_GT(refused, 100);
}

TEST(Shape, HostileBoxesAreRefused) {
  EXPECT_TRUE(tile({}, {{{}, {}}}));
  EXPECT_TRUE(tile({0, 4}, {{{0, 0}, {0, 4}}}));
  EXPECT_FALSE(tile({4}, {}));
  EXPECT_FALSE(tile({4}, {{{0}, {4}}, {{0}, {4}}}));
  EXPECT_FALSE(tile({4}, {{{kMost}, {5}}})) << "the sum overflows";
  EXPECT_FALSE(tile({4}, {{{0, 0}, {4, 1}}})) << "another number of sides";
  EXPECT_FALSE(tile({1ULL << 40, 1ULL << 40}, {{{0, 0}, {1ULL << 40, 1ULL << 40}}}));
}

}  // namespace
}  // namespace paceline::checkpoint
