#include "paceline/core/collective/mixing/spectral_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/seed.h"

namespace paceline::collective {
namespace {

using Matrix = std::vector<double>;

std::size_t at(int i, int j, int n) {
  return static_cast<std::size_t>(i * n + j);
}

Matrix random_matrix(int n, std::mt19937_64& numbers) {
  std::normal_distribution<double> normal;
  Matrix matrix(at(n, 0, n));
  for (double& entry : matrix) entry = normal(numbers);
  return matrix;
}

double length(const std::vector<double>& vector) {
  double sum = 0;
  for (const double x : vector) sum += x * x;
  return std::sqrt(sum);
}

TEST(SpectralNorm, OfADiagonalIsItsLargestEntry) {
  EXPECT_EQ(spectral_norm({0}, 1), 0);
  EXPECT_NEAR(spectral_norm({-3}, 1), 3, 1e-15);
  for (const int n : {2, 3, 17}) {
    Matrix matrix(at(n, 0, n));
    for (int i = 0; i < n; ++i) matrix[at(i, i, n)] = (i % 2 == 0 ? 1 : -1) * (i + 1.5);
    EXPECT_NEAR(spectral_norm(matrix, n), n + 0.5, 1e-13);
  }
}

TEST(SpectralNorm, OfAnOuterProductIsTheProductOfTheLengths) {
  std::mt19937_64 numbers(test::seed(3));
  for (const int n : {2, 5, 33}) {
    const Matrix row = random_matrix(1, numbers), all = random_matrix(n, numbers);
    std::vector<double> u(all.begin(), all.begin() + n), v(all.end() - n, all.end());
    Matrix matrix;
    for (const double a : u)
      for (const double b : v) matrix.push_back(a * b);
    EXPECT_NEAR(spectral_norm(matrix, n) / (length(u) * length(v)), 1, 1e-14);
  }
}

// Reflections from both sides leave singular values as they are.
TEST(SpectralNorm, DoesNotChangeUnderReflections) {
  std::mt19937_64 numbers(test::seed(4));
  for (const int n : {2, 7, 24}) {
    Matrix matrix = random_matrix(n, numbers);
    const double before = spectral_norm(matrix, n);
    for (const bool from_the_left : {true, false}) {
      const Matrix drawn = random_matrix(n, numbers);
      std::vector<double> v(drawn.begin(), drawn.begin() + n);
      const double size = length(v);
      Matrix reflected = matrix;
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
          for (int k = 0; k < n; ++k) {
            const auto place = [](int index) { return static_cast<std::size_t>(index); };
            const double part = from_the_left ? v[place(i)] * v[place(k)] * matrix[at(k, j, n)]
                                              : matrix[at(i, k, n)] * v[place(k)] * v[place(j)];
            reflected[at(i, j, n)] -= 2 * part / (size * size);
          }
      matrix = reflected;
    }
    EXPECT_NEAR(spectral_norm(matrix, n) / before, 1, 1e-13) << n;
  }
}

TEST(SpectralNorm, IsReachedByPowersOfTheMatrixTimesItsTranspose) {
  std::mt19937_64 numbers(test::seed(5));
  for (const int n : {2, 6, 20}) {
    const Matrix matrix = random_matrix(n, numbers);
    std::vector<double> x(static_cast<std::size_t>(n), 1.0);
    double stretched = 0;
    for (int step = 0; step < 3000; ++step) {
      std::vector<double> y(x.size()), back(x.size());
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
          y[static_cast<std::size_t>(i)] += matrix[at(i, j, n)] * x[static_cast<std::size_t>(j)];
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
          back[static_cast<std::size_t>(j)] += matrix[at(i, j, n)] * y[static_cast<std::size_t>(i)];
      stretched = length(y) / length(x);
      const double size = length(back);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = back[i] / size;
    }
    const double norm = spectral_norm(matrix, n);
    EXPECT_LE(stretched, norm * (1 + 1e-14));
    EXPECT_NEAR(stretched / norm, 1, 1e-3) << n;  // close singular values are told apart slowly
  }
}

TEST(SpectralNorm, KeepsTheDigitsOfASmallNorm) {
  EXPECT_NEAR(spectral_norm({1e-12, 0, 0, 2e-12}, 2) / 2e-12, 1, 1e-15);
  EXPECT_NEAR(spectral_norm({1e-100, 0, 0, 0}, 2) / 1e-100, 1, 1e-15);
}

}  // namespace
}  // namespace paceline::collective
