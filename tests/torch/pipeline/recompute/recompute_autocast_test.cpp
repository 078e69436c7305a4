// Recomputation of what was computed in the 16 bits of autocast.
#include <ATen/autocast_mode.h>

#include <utility>

#include "paceline/torch/precision/precision.h"
#include "tests/torch/pipeline/recompute/recomputed_runs.h"

namespace paceline::recompute_test {
namespace {

TEST(RecomputeAutocast, AutocastHasTheBitsOfPlainCalls) {
  expect_the_bits_of_plain_calls([](Trace& trace, const auto& call) {
    Block first, second, other;
    for (const bool is_leaf : {true, false}) {
      const at::Tensor x = numbers(1, {16, 24}).requires_grad_(true);
      // The input is read by two products: leaves are cast once, others twice.
      const Part part = [&](const at::Tensor& input) {
        return first.forward(input) * second.linear(input) + at::mm(input, input.t()).sum();
      };
      at::Tensor y;
      {
        const Autocast autocast(at::kBFloat16);
        // A parameter outside that is used on both sides of the call is cast once.
        const at::Tensor z = other.linear(numbers(2, {16, 24})).sum();
        y = call(part, is_leaf ? x : x * 1.5);
        y = other.linear(y) + second.drop(y) + z;
      }
      trace.add(y);
      y.to(at::kFloat).square().mean().backward();
      trace.add(x.grad());
    }
    for (const auto* module : {&first, &second, &other}) trace.add_gradients(*module);
  });
}

TEST(RecomputeAutocast, AParameterGetsItsGradientWhenAutocastCastsItAfterTheFirstPass) {
  torch::nn::Linear linear(8, 8);
  const Part part = [&](const at::Tensor& x) { return linear(x); };
  const at::Tensor x = numbers(1, {4, 8});
  const Autocast autocast(at::kBFloat16);
  const at::Tensor y = recompute(part, x);
  linear(x).sum().backward();
  ASSERT_TRUE(linear->weight.grad().defined());
  const at::Tensor once = linear->weight.grad().clone();
  y.sum().backward();
  EXPECT_TRUE(linear->weight.grad().equal(once * 2));
  EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(RecomputeAutocast, CastsOfTheSecondPassAreNotUsedAfterIt) {
  torch::nn::Linear linear(8, 8);
  const Part part = [&](const at::Tensor& x) { return linear(x); };
  const at::Tensor x = numbers(1, {4, 8});
  at::Tensor before, after;
  {
    const Autocast autocast(at::kBFloat16);
    before = recompute(part, x);
  }
  before.sum().backward();
  {
    const at::NoGradGuard no_grad;
    linear->weight.zero_();
    linear->bias.zero_();
  }
  {
    const Autocast autocast(at::kBFloat16);
    after = linear(x);
  }
  EXPECT_EQ(after.abs().max().item<float>(), 0);
}

TEST(RecomputeAutocast, TheSecondPassHasTheAutocastStateOfTheFirstOne) {
  std::vector<std::pair<bool, at::ScalarType>> seen;
  const Part part = [&](const at::Tensor& x) {
    seen.emplace_back(at::autocast::is_autocast_enabled(at::kCPU),
                      at::autocast::get_autocast_dtype(at::kCPU));
    return x * 2;
  };
  const at::Tensor x = numbers(1, {4}).requires_grad_(true);
  at::Tensor within, without = recompute(part, x);
  {
    const Autocast autocast(at::kHalf);
    within = recompute(part, x);
    without.sum().backward();
  }
  within.sum().backward();
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen[2], seen[0]);
  EXPECT_EQ(seen[3], seen[1]);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

}  // namespace
}  // namespace paceline::recompute_test
