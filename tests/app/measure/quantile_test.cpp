#include "paceline/app/measure/quantile.h"

#include <gtest/gtest.h>

namespace paceline::measure {
namespace {

TEST(Quantile, IsOneOfTheValuesWhateverTheirOrder) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 3);
  EXPECT_EQ(quantile({5, 4, 3, 2, 1}, 0), 1);
  EXPECT_EQ(quantile({5, 4, 3, 2, 1}, 1), 5);
  EXPECT_EQ(quantile({7}, 0.9), 7);
  EXPECT_EQ(quantile({}, 0.5), 0);
}

TEST(Quantile, GrowsWithItsShare) {
  const std::vector<double> values = {9, 2, 7, 7, 1, 0, 4};
  for (int percent = 1; percent <= 100; ++percent)
    EXPECT_GE(quantile(values, percent / 100.0), quantile(values, (percent - 1) / 100.0));
}

}  // namespace
}  // namespace paceline::measure
