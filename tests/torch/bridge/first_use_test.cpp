#include "paceline/torch/bridge/first_use.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace paceline {
namespace {

TEST(FirstUse, TellsOnceBeforeTheOperatorRuns) {
  const at::Tensor a = at::ones({2, 3}), b = at::ones({3}), never = at::ones({1});
  std::vector<std::size_t> seen;
  const FirstUse watch({a, b, never}, [&](std::size_t place) {
    seen.push_back(place);
    (place == 0 ? a : b).add_(1);  // the value that the operator then reads
  });
  const at::Tensor sum = at::matmul(at::ones({1, 2}), a);
  EXPECT_EQ(sum.sum().item<double>(), 12);
  EXPECT_EQ(at::cat({b, b}).sum().item<double>(), 12) << "within a list";
  (void)(a + b);
  EXPECT_EQ(seen, (std::vector<std::size_t>{0, 1}));
}

TEST(FirstUse, AnUpdateBeforeTheForwardPassIsNoChangeThatAutogradMinds) {
  torch::nn::Linear layer(4, 3), same(4, 3);
  {
    const at::NoGradGuard no_grad;
    same->weight.copy_(layer->weight + 1);
    same->bias.copy_(layer->bias + 1);
  }
  const FirstUse watch(layer->parameters(), [&](std::size_t place) {
    const at::NoGradGuard no_grad;
    layer->parameters()[place].add_(1);
  });
  const at::Tensor x = at::randn({5, 4});
  layer(x).square().sum().backward();
  same(x).square().sum().backward();
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(at::equal(layer->parameters()[i].grad(), same->parameters()[i].grad()));
}

TEST(FirstUse, ManyWatchTheirOwnAndNoneAfterItsEnd) {
  const at::Tensor a = at::ones({2}), b = at::ones({2});
  int of_a = 0, of_b = 0;
  {
    const FirstUse watch_a({a}, [&](std::size_t) { ++of_a; });
    {
      const FirstUse watch_b({b}, [&](std::size_t) { ++of_b; });
      (void)(a + 1);
    }
    (void)(b + 1);
  }
  (void)(a + b);
  EXPECT_EQ(of_a, 1);
  EXPECT_EQ(of_b, 0);
}

}  // namespace
}  // namespace paceline
