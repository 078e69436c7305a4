#include "paceline/linear/data/sparse_columns.h"

#include <gtest/gtest.h>

#include <array>

namespace paceline::linear {
namespace {

SparseRows three_rows() {
  SparseRows rows;
  const std::array<std::uint32_t, 2> first = {0, 3};
  const std::array<double, 2> first_values = {1, 2};
  rows.append({first, first_values});
  rows.append({});
  const std::array<std::uint32_t, 3> last = {1, 3, 4};
  const std::array<double, 3> last_values = {3, 4, 5};
  rows.append({last, last_values});
  return rows;
}

TEST(SparseColumnsTest, TransposingTwiceGivesTheRowsBack) {
  const SparseRows rows = three_rows();
  const SparseColumns columns = columns_of(rows);
  EXPECT_EQ(columns.size(), 5u);
  EXPECT_EQ(columns.height(), 3u);
  EXPECT_EQ(columns_of(columns.transposed).transposed, rows);
}

TEST(SparseColumnsTest, ARangeOfColumnsHoldsTheEntriesOfTheseAlone) {
  const SparseColumns columns = columns_of(three_rows(), 2, 2);
  ASSERT_EQ(columns.size(), 2u);
  EXPECT_EQ(columns.column(0).entries(), 0u);
  const SparseVector third = columns.column(1);
  EXPECT_EQ(std::vector(third.indices.begin(), third.indices.end()),
            (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(std::vector(third.values.begin(), third.values.end()), (std::vector<double>{2, 4}));
}

}  // namespace
}  // namespace paceline::linear
