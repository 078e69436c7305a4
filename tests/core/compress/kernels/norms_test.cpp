#include "paceline/core/compress/kernels/norms.h"

#include <gtest/gtest.h>

#include "tests/support/every_target.h"
#include "tests/support/gradients.h"

namespace paceline::compress {
namespace {

TEST(Norms, AreThoseOfTheDefinition) {
  for (std::size_t n = 0; n <= 5000; n += 1 + n / 20) {
    const auto values = test::gradient(n, n);
    float largest = 0;
    double magnitudes = 0;
    for (const float value : values) {
      largest = std::max(largest, std::abs(value));
      magnitudes += std::abs(value);
    }
    EXPECT_EQ(largest_magnitude(values), largest);
    EXPECT_NEAR(sum_of_magnitudes(values), magnitudes, 1e-12 * magnitudes);
    EXPECT_NEAR(sum_of_squares(values), test::squares(values), 1e-12 * magnitudes);
  }
}

TEST(Norms, HaveTheSameBitsWithEveryInstructionSet) {
  for (std::size_t n = 0; n <= 9000; n += 1 + n / 20) {
    const auto values = test::gradient(n, n);
    const double magnitudes = sum_of_magnitudes(values), squares = sum_of_squares(values);
    test::for_each_target([&] {
      EXPECT_EQ(sum_of_magnitudes(values), magnitudes) << n;
      EXPECT_EQ(sum_of_squares(values), squares) << n;
    });
  }
}

TEST(Norms, TellOfWhatIsNotFiniteWhereverItIs) {
  for (std::size_t i = 0; i < 100; ++i) {
    auto values = test::gradient(100, i);
    values[i] = i % 2 ? NAN : -INFINITY;
    EXPECT_FALSE(std::isfinite(largest_magnitude(values)));
    EXPECT_FALSE(std::isfinite(sum_of_magnitudes(values)));
    EXPECT_FALSE(std::isfinite(sum_of_squares(values)));
  }
}

}  // namespace
}  // namespace paceline::compress
