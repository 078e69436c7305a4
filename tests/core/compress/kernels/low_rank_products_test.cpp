#include "paceline/core/compress/kernels/low_rank_products.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "tests/support/every_target.h"
#include "tests/support/gradients.h"

namespace paceline::compress {
namespace {

// A matrix, two factors of a rank, and the results of the three passes.
struct Passes {
  std::size_t rows, columns, rank;
  std::vector<float> matrix, addend, right, left, own, rest, sum;

  Passes(std::size_t rows_, std::size_t columns_, std::size_t rank_, bool feedback)
      : rows(rows_),
        columns(columns_),
        rank(rank_),
        matrix(test::gradient(rows * columns, 1)),
        addend(feedback ? test::gradient(rows * columns, 2) : std::vector<float>()),
        right(test::gradient(rank * columns, 3)),
        left(rank * rows),
        own(rank * columns),
        rest(addend) {
    add_and_multiply({matrix, columns}, addend, right, left);
    sum = matrix;
    multiply_transposed({matrix, columns}, left, own);
    replace_by_product({matrix, columns}, left, own, right, rest);
  }
};

// The sum of the added products left * right, and the sum of their magnitudes, which bounds the
// rounding.
struct Sum {
  double value = 0, size = 0;

  void add(double left, double right) {
    value += left * right;
    size += std::abs(left * right);
  }
  void expect(float result) const { EXPECT_NEAR(static_cast<double>(result), value, 1e-5 * size); }
};

void expect_definition(const Passes& p) {
  for (std::size_t c = 0; c < p.rank; ++c) {
    for (std::size_t i = 0; i < p.rows; ++i) {
      Sum left;
      for (std::size_t j = 0; j < p.columns; ++j)
        left.add(p.sum[i * p.columns + j], p.right[c * p.columns + j]);
      left.expect(p.left[c * p.rows + i]);
    }
    for (std::size_t j = 0; j < p.columns; ++j) {
      Sum own;
      for (std::size_t i = 0; i < p.rows; ++i)
        own.add(p.sum[i * p.columns + j], p.left[c * p.rows + i]);
      own.expect(p.own[c * p.columns + j]);
    }
  }
  for (std::size_t at = 0; at < p.matrix.size(); ++at) {
    const std::size_t i = at / p.columns, j = at % p.columns;
    Sum product, rest;
    rest.add(p.sum[at], 1);
    for (std::size_t c = 0; c < p.rank; ++c) {
      product.add(p.left[c * p.rows + i], p.right[c * p.columns + j]);
      rest.add(-p.left[c * p.rows + i], p.own[c * p.columns + j]);
    }
    product.expect(p.matrix[at]);
    if (!p.rest.empty()) rest.expect(p.rest[at]);
  }
}

TEST(LowRankProducts, AreThoseOfTheDefinition) {
  using Sizes = std::array<std::size_t, 3>;
  for (const auto& [rows, columns, rank] :
       {Sizes{1, 1, 1}, {3, 17, 1}, {40, 31, 2}, {7, 300, 4}, {130, 64, 5}}) {
    const auto alone = test::gradient(rows * columns, 1);
    const Passes without(rows, columns, rank, false), with(rows, columns, rank, true);
    EXPECT_EQ(without.sum, alone);
    for (std::size_t at = 0; at < alone.size(); ++at)
      EXPECT_EQ(with.sum[at], alone[at] + with.addend[at]);
    expect_definition(without);
    expect_definition(with);
  }
}

TEST(LowRankProducts, HaveTheSameBitsWithEveryInstructionSet) {
  for (std::size_t columns = 1; columns < 100; columns += 1 + columns / 8) {
    const Passes passes(5, columns, 3, true);
    test::for_each_target([&] {
      const Passes again(5, columns, 3, true);
      EXPECT_EQ(again.left, passes.left) << columns;
      EXPECT_EQ(again.own, passes.own) << columns;
      EXPECT_EQ(again.rest, passes.rest) << columns;
      EXPECT_EQ(again.matrix, passes.matrix) << columns;
    });
  }
}

}  // namespace
}  // namespace paceline::compress
