// A scope in which libtorch chooses types.
#include "paceline/torch/precision/autocast.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace paceline {
namespace {

TEST(Autocast, ComputesProductsInSixteenBitsAndLeavesThreadAsItWas) {
  const at::Tensor a = at::ones({2, 3}), b = at::ones({3, 2});
  {
    const Autocast outer(at::kBFloat16);
    EXPECT_EQ(at::mm(a, b).scalar_type(), at::kBFloat16);
    {
      const Autocast inner(at::kHalf);
      EXPECT_EQ(at::mm(a, b).scalar_type(), at::kHalf);
    }
    EXPECT_EQ(at::mm(a, b).scalar_type(), at::kBFloat16);
    EXPECT_EQ(at::mse_loss(at::mm(a, b), at::ones({2, 2})).scalar_type(), at::kFloat);
  }
  EXPECT_EQ(at::mm(a, b).scalar_type(), at::kFloat);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(Autocast, ChangesNothingWithoutAType) {
  const Autocast scope(std::nullopt);
  EXPECT_EQ(at::mm(at::ones({2, 3}), at::ones({3, 2})).scalar_type(), at::kFloat);
}

// A cached copy of a parameter would outlive its values.
TEST(Autocast, ForgetsCastParametersAtItsEnd) {
  at::Tensor weight = at::ones({2, 2}).requires_grad_();
  const at::Tensor input = at::ones({2, 2});
  for (const double value : {1.0, 3.0}) {
    {
      const at::NoGradGuard no_grad;
      weight.fill_(value);
    }
    const Autocast scope(at::kBFloat16);
    EXPECT_EQ(at::mm(input, weight)[0][0].item<double>(), 2 * value);
  }
}

}  // namespace
}  // namespace paceline
