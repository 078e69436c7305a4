#include "paceline/torch/tensor/dropout.h"

#include <cmath>

#include "paceline/torch/parallel/parallel.h"
#include "tests/torch/tensor/small_layers.h"

namespace paceline::tensor_test {
namespace {

struct Dropping : torch::nn::Module {
  explicit Dropping(double p) {
    first = register_module("first", Dropout(p));
    second = register_module("second", Dropout(p));
    weight = register_parameter("weight", at::ones({1}));
  }
  Dropout first{nullptr}, second{nullptr};
  at::Tensor weight;
};

TEST(DropoutLayer, has_the_bits_of_torchs_without_a_training) {
  const at::Tensor x = at::ones({50, 7});
  Dropout ours(0.3);
  torch::nn::Dropout torchs(0.3);
  const at::Tensor a = drawn(3, [&] { return ours(x); });
  EXPECT_TRUE(a.equal(drawn(3, [&] { return torchs(x); })));
  ours->eval();
  EXPECT_TRUE(ours(x).equal(x));
}

TEST(DropoutLayer, drops_a_share_of_p_and_scales_the_rest_so_that_the_mean_stays) {
  test::run_ranks(1, [](Job& job) {
    Dropping model(0.3);
    DataParallel parallel(model, job);
    const at::Tensor kept = model.first(at::ones({100, 1000}));
    const double share = kept.eq(0).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(share, 0.3, 4 * std::sqrt(0.21 / 1e5));
    EXPECT_TRUE(kept.logical_or(kept.eq(0)).all().item<bool>());
    EXPECT_FLOAT_EQ(kept.max().item<float>(), 1 / 0.7F);
  });
}

TEST(DropoutLayer, draws_another_mask_for_each_layer_use_and_step_and_the_same_in_a_second_run) {
  std::vector<at::Tensor> runs[2];
  for (auto& masks : runs) {
    test::run_ranks(1, [&](Job& job) {
      Dropping model(0.5);
      DataParallel parallel(model, job, {.dropout_seed = 9});
      torch::optim::SGD optimizer(model.parameters(), 0.1);
      for (int step = 0; step < 2; ++step) {
        for (int use = 0; use < 2; ++use) {
          masks.push_back(model.first(at::ones({4, 64})));
          masks.push_back(model.second(at::ones({4, 64})));
        }
        model.weight.sum().backward();
        parallel.step(optimizer);
      }
    });
  }
  for (std::size_t i = 0; i < runs[0].size(); ++i) {
    EXPECT_TRUE(runs[0][i].equal(runs[1][i])) << i;
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_FALSE(runs[0][i].equal(runs[0][j])) << i << ", " << j;
  }
}

TEST(DropoutLayer, refuses_what_is_no_probability) {
  EXPECT_THAT(misuse_text([] { Dropout(1.5); }), testing::HasSubstr("1.5 is not between 0 and 1"));
}

}  // namespace
}  // namespace paceline::tensor_test
