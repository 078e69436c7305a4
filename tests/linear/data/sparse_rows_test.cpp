#include "paceline/linear/data/sparse_rows.h"

#include <gtest/gtest.h>

#include <array>

#include "paceline/linear/data/samples.h"

namespace paceline::linear {
namespace {

constexpr std::array<std::uint32_t, 2> kIndices = {1, 4};
constexpr std::array<double, 2> kValues = {2, -3};
constexpr SparseVector kRow{kIndices, kValues};

TEST(SparseRowsTest, ProductsAndSumsTouchTheEntriesAlone) {
  std::vector<double> dense = {1, 10, 1, 1, 100};
  EXPECT_EQ(dot(kRow, dense), 20 - 300);
  EXPECT_EQ(squared_norm(kRow), 13);
  add(2, kRow, dense);
  EXPECT_EQ(dense, (std::vector<double>{1, 14, 1, 1, 94}));
}

TEST(SparseRowsTest, ARowWidensTheMatrixWhereItMust) {
  SparseRows rows{.width = 3};
  rows.append({});
  EXPECT_EQ(rows.width, 3u);
  rows.append(kRow);
  EXPECT_EQ(rows.width, 5u);
  EXPECT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows.entries(), 2u);
  EXPECT_EQ(rows.row(0).entries(), 0u);
  EXPECT_EQ(rows.row(1).indices[1], 4u);
}

TEST(SparseRowsTest, SelectedSamplesKeepTheirLabelsAndTheWidth) {
  Samples samples;
  samples.rows.append({});
  samples.rows.append(kRow);
  samples.labels = {-1, 1};
  const std::array<std::size_t, 3> which = {1, 0, 1};
  const Samples chosen = select(samples, which);
  EXPECT_EQ(chosen.labels, (std::vector<double>{1, -1, 1}));
  EXPECT_EQ(chosen.rows.width, 5u);
  EXPECT_EQ(dot(chosen.rows.row(2), std::vector<double>{0, 1, 0, 0, 0}), 2);
  EXPECT_EQ(chosen.rows.row(1).entries(), 0u);
}

}  // namespace
}  // namespace paceline::linear
