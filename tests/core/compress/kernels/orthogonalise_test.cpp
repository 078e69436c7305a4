#include "paceline/core/compress/kernels/orthogonalise.h"

#include <gtest/gtest.h>

#include "tests/support/averaging_run.h"

namespace paceline::compress {
namespace {

double dot(const std::vector<float>& columns, std::size_t length, std::size_t a, std::size_t b) {
  double sum = 0;
  for (std::size_t i = 0; i < length; ++i)
    sum += static_cast<double>(columns[a * length + i]) * columns[b * length + i];
  return sum;
}

TEST(Orthogonalise, MakesColumnsOrthonormal) {
  for (const auto& [length, count] :
       {std::pair<std::size_t, std::size_t>{1, 1}, {7, 7}, {300, 16}}) {
    auto columns = test::gradients_of(1, length * count, length).front();
    orthogonalise(columns, length);
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b <= a; ++b)
        EXPECT_NEAR(dot(columns, length, a, b), a == b ? 1 : 0, 1e-6) << a << " and " << b;
  }
}

TEST(Orthogonalise, MakesZeroOfColumnsThatDependOnThoseBefore) {
  auto columns = test::gradients_of(1, 3 * 50, 4).front();
  for (std::size_t i = 0; i < 50; ++i) columns[50 + i] = 1.7f * columns[i];
  orthogonalise(columns, 50);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(columns[50 + i], 0);
  EXPECT_NEAR(dot(columns, 50, 2, 2), 1, 1e-6);
  EXPECT_NEAR(dot(columns, 50, 0, 2), 0, 1e-6);
}

TEST(Orthogonalise, LeavesZeroAndNothingAsTheyAre) {
  std::vector<float> zero(8), nothing;
  orthogonalise(zero, 4);
  EXPECT_EQ(zero, std::vector<float>(8));
  orthogonalise(nothing, 0);
}

}  // namespace
}  // namespace paceline::compress
