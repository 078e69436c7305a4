// Elements that are NaN or infinite are found in tensors of every kind.
#include "paceline/torch/replica/grads/finite_watch.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

namespace paceline::replica {
namespace {

TEST(FiniteWatch, FindsOneElementThatIsNotFiniteWhereverItLies) {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor values = at::full({9001}, 60000, at::TensorOptions().dtype(type));
    EXPECT_TRUE(is_finite(values));
    EXPECT_TRUE(is_finite(-values));
    EXPECT_TRUE(is_finite(values.slice(0, 0, 0)));
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
          -std::numeric_limits<double>::infinity()}) {
      for (const std::int64_t place : {0, 4095, 4096, 9000}) {
        const at::Tensor one = values.clone();
        one.select(0, place).fill_(bad);
        EXPECT_FALSE(is_finite(one)) << type << ", " << bad << " at " << place;
        EXPECT_FALSE(is_finite(one.view({1, 9001}).t().slice(0, place, place + 1)));
      }
    }
  }
}

TEST(FiniteWatch, LooksAtTheRowsOfASparseGradient) {
  const at::Tensor rows = at::ones({2, 3}), places = torch::tensor({{1, 4}});
  EXPECT_TRUE(is_finite(at::sparse_coo_tensor(places, rows, {6, 3})));
  rows[1][2] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(is_finite(at::sparse_coo_tensor(places, rows, {6, 3})));
}

TEST(FiniteWatch, CountsTheStepsInARowUntilOneIsGood) {
  FiniteWatch watch("", 3);
  EXPECT_FALSE(watch.looks());
  for (int k = 0; k < 2; ++k) watch.left_out();
  EXPECT_FALSE(watch.is_at_limit());
  watch.counted();
  for (int k = 0; k < 3; ++k) watch.left_out();
  EXPECT_TRUE(watch.is_at_limit());
  EXPECT_EQ(watch.skipped(), 5);
}

}  // namespace
}  // namespace paceline::replica
