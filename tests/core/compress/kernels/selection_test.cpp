// Also covers paceline/core/compress/payload/sparse.h and paceline/core/compress/codecs/top_k.h.
#include "paceline/core/compress/kernels/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "paceline/core/base/seed.h"
#include "paceline/core/compress/codecs/top_k.h"
#include "paceline/core/compress/payload/sparse.h"
#include "tests/support/every_target.h"
#include "tests/support/gradients.h"
#include "tests/support/seed.h"

namespace paceline::compress {
namespace {

using test::encoded, test::gradient, test::there_and_back;
using Indices = std::vector<std::uint32_t>;

// The order by its definition (docs/compression/top_k.md).
Indices model(const std::vector<float>& values, std::size_t count) {
  Indices all(values.size());
  std::iota(all.begin(), all.end(), 0u);
  std::ranges::stable_sort(
      all, [&](auto a, auto b) { return std::abs(values[a]) > std::abs(values[b]); });
  all.resize(count);
  std::ranges::sort(all);
  return all;
}

Indices largest(const std::vector<float>& values, std::size_t count) {
  Indices indices(count);
  EXPECT_TRUE(select_largest(values, indices));
  return indices;
}

// Whole numbers of few magnitudes: ties at every limit.
std::vector<float> tied(std::size_t elements, std::uint64_t seed) {
  auto values = gradient(elements, seed);
  for (float& value : values) value = std::nearbyint(value * 8);
  return values;
}

TEST(CountOf, IsTheSpecificationsRule) {
  EXPECT_EQ(count_of(0.07, 100), 7u) << "where ceil alone gives 8";
  EXPECT_EQ(count_of(0.1, 0), 0u);
  EXPECT_EQ(count_of(1e-9, 5), 1u);
  EXPECT_EQ(count_of(1, 5), 5u);
  EXPECT_EQ(count_of(0.01, 1003), 11u);
  EXPECT_THROW((void)count_of(0, 5), Error);
  EXPECT_THROW((void)count_of(1.01, 5), Error);
}

TEST(SelectLargest, TakesTheFirstOfTies) {
  EXPECT_EQ(largest(std::vector<float>(9, 1), 3), (Indices{0, 1, 2}));
  EXPECT_EQ(largest({1, -1, 2, -2}, 3), (Indices{0, 2, 3}));
  EXPECT_EQ(largest(std::vector<float>(100), 3), (Indices{0, 1, 2})) << "zeros";
}

TEST(SelectLargest, IsTheModelForEveryCountWithEveryInstructionSet) {
  test::for_each_target([] {
    for (std::size_t n = 0; n <= 200; ++n) {
      for (const auto& values : {gradient(n, n), tied(n, n)}) {
        for (std::size_t count = 0; count <= n; count += 1 + n / 9)
          ASSERT_EQ(largest(values, count), model(values, count)) << count << " of " << n;
      }
    }
  });
}

TEST(SelectLargest, IsTheModelForLongTensors) {
  for (const std::size_t n : {4096, 70001}) {
    auto narrow = gradient(n, 3);  // all in one power of two
    for (float& value : narrow) value = std::copysign(1 + std::abs(value) * 0x1p-12f, value);
    auto sparse = std::vector<float>(n);
    for (std::size_t i = 7; i < n; i += 100) sparse[i] = -1e-40f * static_cast<float>(i);
    auto misleading = gradient(n, 4);  // the head of each page, where a sample is taken, is large
    for (std::size_t i = 0; i < n; ++i) misleading[i] *= i % 4096 < 16 ? 1.0f : 1e-3f;
    for (const auto& values : {gradient(n, 1), tied(n, 2), narrow, sparse, misleading}) {
      for (const double ratio : {1e-9, 0.001, 0.01, 0.3, 0.999, 1.0}) {
        const std::size_t count = count_of(ratio, n);
        ASSERT_EQ(largest(values, count), model(values, count)) << ratio << " of " << n;
      }
    }
  }
}

TEST(SelectLargest, OrdersTheWholeRangeOfFloats) {
  SeededNumbers numbers(test::seed(1));
  std::vector<float> values(20000);
  for (float& value : values) {
    do value = std::bit_cast<float>(static_cast<std::uint32_t>(numbers.next()));
    while (!std::isfinite(value));
  }
  for (const std::size_t count : {1, 100, 10000, 19999})
    EXPECT_EQ(largest(values, count), model(values, count));
}

TEST(SelectLargest, TellsOfWhatIsNotFiniteWhereverItIs) {
  for (const std::size_t n : {5, 70001}) {
    for (std::size_t i = 0; i < n; i += 1 + n / 30) {
      auto values = gradient(n, i);
      values[i] = i % 2 ? NAN : -INFINITY;
      Indices indices(count_of(0.01, n));
      EXPECT_FALSE(select_largest(values, indices)) << i << " of " << n;
    }
  }
}

void expect_selection_of_sum(const std::vector<float>& values, const std::vector<float>& more,
                             std::size_t count) {
  std::vector<float> expected(values), sum(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) expected[i] += more[i];
  Indices indices(count), in_place(count);
  ASSERT_TRUE(select_largest_of_sum(values, more, sum, indices));
  ASSERT_EQ(sum, expected);
  ASSERT_EQ(indices, model(expected, count));
  sum = values;
  ASSERT_TRUE(select_largest_of_sum(sum, more, sum, in_place));
  ASSERT_EQ(sum, expected);
  ASSERT_EQ(in_place, indices);
}

TEST(SelectLargestOfSum, IsThatOfTheSumWithEveryInstructionSet) {
  test::for_each_target([] {
    for (const std::size_t n : {0, 1, 100, 70001, 300007}) {  // the last one goes past the caches
      expect_selection_of_sum(gradient(n, 1), gradient(n, 2), count_of(0.01, n));
      expect_selection_of_sum(tied(n, 1), tied(n, 2), count_of(0.5, n));
    }
  });
}

// The sample is large, or small, where the sum is not.
TEST(SelectLargestOfSum, IsThatOfTheSumWhereTheGuessFails) {
  for (const float elsewhere : {1e-3f, 1e3f}) {
    auto values = gradient(300007, 4), more = gradient(300007, 5);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float factor = i % 4096 < 16 ? 1.0f : elsewhere;
      values[i] *= factor;
      more[i] *= factor;
    }
    expect_selection_of_sum(values, more, 3001);
  }
}

TEST(SelectLargestOfSum, TellsOfWhatIsNotFiniteWhereverItIs) {
  constexpr std::size_t kElements = 70001;
  for (std::size_t i = 0; i < kElements; i += 2333) {
    auto values = gradient(kElements, 1), more = gradient(kElements, 2);
    (i % 2 ? values : more)[i] = i % 3 ? NAN : INFINITY;
    std::vector<float> sum(kElements);
    Indices indices(count_of(0.01, kElements));
    EXPECT_FALSE(select_largest_of_sum(values, more, sum, indices)) << i;
  }
}

TEST(SelectBySample, IsTheModels) {
  struct Row {
    std::size_t elements, count;
    std::uint64_t seed;
    std::uint32_t checksum;
  };
  const Row rows[] = {{1003, 10, 1, 0xd4b753c0},
                      {5000, 5, 2, 0x828748e0},
                      {5000, 50, 3, 0x6b408d51},
                      {20000, 200, 4, 0xeb61e5d4},
                      {20000, 2000, 5, 0x9b66b8a0}};
  for (const Row& row : rows) {
    const auto indices =
        select_by_sample(gradient(row.elements, row.seed), row.count,
                         {.seed = row.seed, .rank = 0, .purpose = RandomStream::Purpose::sample});
    ASSERT_TRUE(indices);
    EXPECT_EQ(test::checksum(*indices), row.checksum) << row.count << " of " << row.elements;
  }
}

TEST(SelectBySample, SendsBetweenFourFifthsAndAllOfTheFirst) {
  constexpr std::size_t kElements = 20000;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto values = gradient(kElements, seed);
    for (const std::size_t count : {1, 20, 200, 5000}) {
      const auto indices = select_by_sample(values, count, {.seed = seed});
      ASSERT_TRUE(indices);
      EXPECT_LE(indices->size(), count);
      EXPECT_GE(static_cast<double>(indices->size()), 0.8 * static_cast<double>(count));
      EXPECT_EQ(*indices, model(values, indices->size()));
    }
  }
}

TEST(SelectBySample, DoesNotMindSamplesThatTellNothing) {
  std::vector<float> few(10000);
  std::fill_n(few.begin(), 5, 1.0f);
  EXPECT_EQ(select_by_sample(few, 100, {.seed = 1}), model(few, 100));
  auto equal = gradient(10000, 1);
  for (float& value : equal) value = std::copysign(1.0f, value);
  EXPECT_EQ(select_by_sample(equal, 100, {.seed = 1}), model(equal, 100));
  EXPECT_EQ(select_by_sample(gradient(30, 1), 3, {.seed = 1}), model(gradient(30, 1), 3));
  EXPECT_EQ(select_by_sample({}, 0, {}), Indices{});
}

// The sample's values are much larger than all others, so that no lowering finds enough.
TEST(SelectBySample, SelectsExactlyWhereItsThresholdFails) {
  for (std::size_t offset = 0; offset < 100; ++offset) {
    auto values = gradient(10000, 6);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] *= i % 100 == offset ? 1.0f : 1e-3f;
    const auto indices = select_by_sample(values, 500, {.seed = 1});
    ASSERT_TRUE(indices);
    EXPECT_GE(indices->size(), 400u);
    EXPECT_EQ(*indices, model(values, indices->size()));
  }
}

TEST(SelectBySample, TellsOfNan) {
  for (std::size_t i = 0; i < 1000; i += 37) {
    auto values = gradient(1000, 1);
    values[i] = i % 2 ? NAN : INFINITY;
    EXPECT_FALSE(select_by_sample(values, 10, {.seed = 1}));
  }
}

TEST(TopK, WritesTheModelsBytes) {
  const std::uint32_t rows[] = {0xcc473cda, 0x5021868a, 0x9feec728, 0x3e5cf147, 0x058ee81a};
  const double ratios[] = {.001, .01, .07, .3, 1.};
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    const auto payload = encoded(*top_k_codec(ratios[i]), gradient(1003, 1));
    EXPECT_EQ(payload.size(), 8 * count_of(ratios[i], 1003));
    EXPECT_EQ(test::checksum(payload), rows[i]) << ratios[i];
  }
  const std::uint32_t ties[] = {0xd0a35578, 0xe9e922eb, 0xecc91074, 0xf4834b80, 0xa4874e3a};
  for (std::size_t i = 0; i < std::size(ties); ++i)
    EXPECT_EQ(test::checksum(encoded(*top_k_codec(ratios[i]), tied(1003, 9))), ties[i]);
}

TEST(TopK, LosesAtMostTheShareThatItDoesNotSend) {
  for (const std::size_t n : {1, 10, 1003}) {
    for (const double ratio : {.01, .3, 1.}) {
      const auto values = gradient(n, n);
      const double kept = static_cast<double>(count_of(ratio, n)) / static_cast<double>(n);
      EXPECT_LE(test::squared_distance(values, there_and_back(*top_k_codec(ratio), values)),
                (1 - kept) * test::squares(values) * (1 + 1e-6));
    }
  }
}

TEST(TopK, RefusesARatioOutOfRange) {
  EXPECT_THROW(top_k_codec(0), Error);
  EXPECT_THROW(top_k_codec(1.5), Error);
  EXPECT_THROW(top_k_codec(NAN), Error);
}

TEST(Sparse, KeepsALoneNegativeZero) {
  const auto back = there_and_back(*top_k_codec(1), {-0.0f, 1});
  EXPECT_TRUE(std::signbit(back[0]));
}

TEST(Sparse, RefusesIndicesThatDoNotAscendOrAreBeyond) {
  const auto open = [](Indices indices, std::vector<float> values) {
    std::vector<std::byte> payload(8 * indices.size());
    std::memcpy(payload.data(), indices.data(), 4 * indices.size());
    std::memcpy(payload.data() + 4 * indices.size(), values.data(), 4 * indices.size());
    return open_sparse(payload, 10).has_value();
  };
  EXPECT_TRUE(open({0, 3, 9}, {1, 2, 3}));
  EXPECT_FALSE(open({0, 3, 10}, {1, 2, 3})) << "beyond";
  EXPECT_FALSE(open({0, 3, 3}, {1, 2, 3})) << "twice";
  EXPECT_FALSE(open({3, 0, 9}, {1, 2, 3})) << "descending";
  EXPECT_FALSE(open({0, 3, 0xffffffff}, {1, 2, 3}));
  EXPECT_FALSE(open({0, 3, 9}, {1, NAN, 3}));
  EXPECT_FALSE(open_sparse(std::vector<std::byte>(12), 10));
}

}  // namespace
}  // namespace paceline::compress
