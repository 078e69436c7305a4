#include "paceline/core/quasi_newton/two_loop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/quasi_newton/inner_product.h"
#include "tests/support/seed.h"

namespace paceline::quasi_newton {
namespace {

using Numbers = std::vector<double>;
using Matrix = std::vector<Numbers>;

constexpr std::size_t kDimension = 9;

double product(const Numbers& a, const Numbers& b) {
  return inner_product(a.data(), b.data(), a.size());
}

Numbers times(const Matrix& a, const Numbers& v) {
  Numbers result;
  for (const Numbers& row : a) result.push_back(product(row, v));
  return result;
}

Numbers drawn_numbers(SeededNumbers& numbers) {
  Numbers result(kDimension);
  for (double& one : result) one = 2 * numbers.unit() - 1;
  return result;
}

// Pairs of a quadratic function, so that all of them have curvature.
struct DrawnPairs {
  Matrix moves, changes;
  explicit DrawnPairs(SeededNumbers& numbers, std::size_t count) {
    Matrix factor(kDimension);
    for (Numbers& row : factor) row = drawn_numbers(numbers);
    for (std::size_t i = 0; i < count; ++i) {
      moves.push_back(drawn_numbers(numbers));
      const Numbers half = times(factor, moves.back());
      Numbers change = moves.back();
      for (std::size_t k = 0; k < kDimension; ++k)
        for (std::size_t j = 0; j < kDimension; ++j) change[j] += factor[k][j] * half[k];
      changes.push_back(change);
    }
  }
  double sy(std::size_t i) const { return product(moves[i], changes[i]); }
};

// The inverse Hessian as a matrix, from the oldest pair to the newest:
// H = (I - r s y^T) H (I - r y s^T) + r s s^T.
Matrix inverse_hessian(const DrawnPairs& pairs, double scale) {
  Matrix h(kDimension, Numbers(kDimension));
  for (std::size_t i = 0; i < kDimension; ++i) h[i][i] = scale;
  for (std::size_t age = pairs.moves.size(); age-- > 0;) {
    const Numbers &s = pairs.moves[age], &y = pairs.changes[age], hy = times(h, y);
    const double r = 1 / pairs.sy(age), more = (1 + r * product(y, hy)) * r;
    for (std::size_t i = 0; i < kDimension; ++i)
      for (std::size_t j = 0; j < kDimension; ++j)
        h[i][j] += more * s[i] * s[j] - r * (s[i] * hy[j] + hy[i] * s[j]);
  }
  return h;
}

TEST(TwoLoop, MultipliesByTheMatrixThatThePairsMake) {
  SeededNumbers numbers(test::seed(4510000));
  for (std::size_t count = 0; count < 6; ++count) {
    for (const bool scales : {false, true}) {
      const DrawnPairs pairs(numbers, count);
      const double scale =
          scales && count > 0 ? pairs.sy(0) / product(pairs.changes[0], pairs.changes[0]) : 1;
      const Numbers vector = drawn_numbers(numbers);
      const Numbers expected = times(inverse_hessian(pairs, scale), vector);
      Numbers products;
      for (std::size_t i = 0; i < count; ++i) products.push_back(pairs.sy(i));
      TwoLoop loops(products, scales ? std::optional(scale) : std::nullopt);
      const auto vector_of = [&](const TwoLoop::Vector& one) {
        return (one.of == TwoLoop::Vector::Of::move ? pairs.moves : pairs.changes)[one.age];
      };
      Numbers q = vector;
      std::size_t asked = 0;
      for (auto step = loops.next();; step = loops.next(product(vector_of(*step.product), q))) {
        for (std::size_t i = 0; step.added && i < kDimension; ++i)
          q[i] += step.factor * vector_of(*step.added)[i];
        for (std::size_t i = 0; step.scale && i < kDimension; ++i) q[i] *= *step.scale;
        if (!step.product) break;
        ++asked;
      }
      EXPECT_EQ(asked, 2 * count) << "an inner product is a round of messages";
      for (std::size_t i = 0; i < kDimension; ++i)
        EXPECT_NEAR(q[i], expected[i], 1e-9 * std::sqrt(product(expected, expected)));
    }
  }
}

TEST(HasCurvature, OfPairsThatTurnWithTheGradientAlone) {
  EXPECT_TRUE(has_curvature(1e-9, 1, 1));
  EXPECT_FALSE(has_curvature(1e-11, 1, 1));
  EXPECT_FALSE(has_curvature(-1, 1, 1));
  EXPECT_FALSE(has_curvature(0, 0, 1));
}

TEST(InnerProduct, IsTheSumOfAllProductsWhateverTheLength) {
  for (std::size_t count = 0; count < 40; ++count) {
    Numbers left(count), right(count);
    double expected = 0;
    for (std::size_t i = 0; i < count; ++i) {
      left[i] = static_cast<double>(i + 1);
      right[i] = static_cast<double>(3 * i) - 7;
      expected += left[i] * right[i];
    }
    EXPECT_EQ(product(left, right), expected) << count;
  }
}

}  // namespace
}  // namespace paceline::quasi_newton
