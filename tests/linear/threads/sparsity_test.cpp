#include "paceline/linear/threads/sparsity.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/linear/threads/sparse_logistic.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

SparseRows rows_with(const std::vector<std::vector<std::uint32_t>>& supports) {
  SparseRows rows;
  for (const auto& support : supports)
    rows.append({support, std::vector<double>(support.size(), 1)});
  return rows;
}

TEST(Sparsity, IsKnownForAFewRows) {
  const auto rows = rows_with({{0, 1, 2}, {2}, {3, 4}, {}, {1}});
  EXPECT_EQ(samples_with_feature(rows), (std::vector<std::size_t>{1, 2, 2, 1, 1}));
  const Sparsity sparsity = sparsity_of(rows);
  EXPECT_EQ(sparsity.omega, 3u);
  EXPECT_EQ(sparsity.delta, 2. / 5);
  EXPECT_EQ(sparsity.rho, 3. / 5) << "the first row meets itself, the second and the last one";
  EXPECT_EQ(sparsity.text(),
            "a sample has up to 3 features, a feature is in up to 40 % of the samples, and a "
            "sample shares features with up to 60 % of them");
  EXPECT_EQ(sparsity_of({}).rho, 0);
}

TEST(Sparsity, IsThatOfAllPairsOfRows) {
  const SparseRows rows = test::sparse_samples(200, 300, 5, test::seed(2520000)).rows;
  double most = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto own = rows.row(i).indices;
    int meets = 0;
    for (std::size_t other = 0; other < rows.size(); ++other)
      meets += std::ranges::any_of(rows.row(other).indices, [&](std::uint32_t j) {
        return std::ranges::find(own, j) != own.end();
      });
    most = std::max(most, meets / 200.);
  }
  EXPECT_EQ(sparsity_of(rows).rho, most);
  EXPECT_LE(sparsity_of(rows, 20).rho, most);
  const auto with_one_for_all = rows_with({{0, 1}, {0, 2}, {0, 3}});
  EXPECT_EQ(sparsity_of(with_one_for_all).rho, 1);
}

}  // namespace
}  // namespace paceline::linear
