#include "paceline/core/compress/payload/sparse.h"

#include <gtest/gtest.h>

#include <limits>

namespace paceline::compress {
namespace {

TEST(SparseSum, AddsWhatBothHaveAndKeepsTheRest) {
  const SparseSum left{{1, 4, 9}, {1, 2, 3}}, right{{0, 4, 10}, {10, 20, 30}};
  EXPECT_EQ(merged(left, right), (SparseSum{{0, 1, 4, 9, 10}, {10, 1, 22, 3, 30}}));
  EXPECT_EQ(merged(left, {}), left);
  EXPECT_EQ(merged({}, right), right);
}

TEST(SparseSum, KeepsTheLargestAndTheFirstOfEqualOnes) {
  SparseSum sum{{2, 3, 5, 8}, {1, -7, 1, 1}};
  const Dropped dropped = keep_largest(sum, 2);
  EXPECT_TRUE(dropped.finite);
  EXPECT_EQ(sum, (SparseSum{{2, 3}, {1, -7}}));
  EXPECT_EQ(dropped.others, (SparseSum{{5, 8}, {1, 1}}));
  EXPECT_EQ(keep_largest(sum, 9).others, SparseSum{});
  SparseSum infinite{{1}, {std::numeric_limits<float>::infinity()}};
  EXPECT_FALSE(keep_largest(infinite, 1).finite);
}

TEST(SparseSum, SurvivesItsPayload) {
  const SparseSum sum =
      SparseSum::of(std::vector<float>{5, 6, 7}, std::vector<std::uint32_t>{0, 2});
  EXPECT_EQ(sum, (SparseSum{{0, 2}, {5, 7}}));
  std::vector<std::byte> payload(sparse_bytes(2));
  write(sum, payload);
  const auto view = open_sparse(payload, 3);
  ASSERT_TRUE(view);
  EXPECT_EQ(SparseSum::of(view.value()), sum);
}

}  // namespace
}  // namespace paceline::compress
