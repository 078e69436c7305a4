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

TEST(DropoutLayer, HasTheBitsOfTorchsWithoutATraining) {
  const at::Tensor x = at::ones({50, 7});
  Dropout ours(0.3);
  torch::nn::Dropout torchs(0.3);
  const at::Tensor a = drawn(3, [&] { return ours(x); });
  EXPECT_TRUE(a.equal(drawn(3, [&] { return torchs(x); })));
  ours->eval();
  EXPECT_TRUE(ours(x).equal(x));
}

TEST(DropoutLayer, DropsAShareOfPAndScalesTheRestSoThatTheMeanStays) {
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

TEST(DropoutLayer, DrawsAnotherMaskForEachLayerUseAndStepAndTheSameInASecondRun) {
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

// A part of a model that keeps its input alone, and computes again within backward.
using RecomputedPart = std::function<at::Tensor(const at::Tensor&)>;
struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const RecomputedPart* part) {
    context->save_for_backward({input});
    context->saved_data["part"] = reinterpret_cast<std::int64_t>(part);
    const at::NoGradGuard no_grad;
    return (*part)(input);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto* part = reinterpret_cast<const RecomputedPart*>(context->saved_data["part"].toInt());
    const at::AutoGradMode with_grad(true);
    const at::Tensor input = context->get_saved_variables()[0].detach().requires_grad_(true);
    (*part)(input).backward(gradients[0]);
    return {input.grad(), at::Tensor()};
  }
};

// Two parts of two uses of one Dropout each.
struct Parts : torch::nn::Module {
  Parts() {
    drop = register_module("drop", Dropout(0.4));
    weight = register_parameter("weight", at::linspace(0.5, 1.5, 32, at::kDouble));
    const RecomputedPart part = [this](const at::Tensor& x) {
      return drop(at::tanh(drop(x * weight[0]) * weight));
    };
    parts = {part, part};
  }
  at::Tensor forward(at::Tensor x, bool recomputes) {
    for (const RecomputedPart& part : parts) x = recomputes ? Recomputed::apply(x, &part) : part(x);
    return x;
  }
  std::vector<RecomputedPart> parts;
  Dropout drop{nullptr};
  at::Tensor weight;
};

TEST(DropoutLayer, ARecomputedPassHasTheMaskOfTheFirstOneInEveryMicroBatch) {
  std::vector<at::Tensor> gradients;
  for (const bool recomputes : {false, true}) {
    test::run_ranks(1, [&](Job& job) {
      Parts model;
      DataParallel parallel(model, job, {.backward_passes_per_step = 3});
      torch::optim::SGD optimizer(model.parameters(), 0.1);
      for (int step = 0; step < 2; ++step) {
        const auto x = [&](int k) {
          return at::linspace(-1, 1 + k + step, 4 * 32, at::kDouble)
              .view({4, 32})
              .requires_grad_(true);
        };
        {
          const auto paused = parallel.no_sync();
          for (int k = 0; k < 2; ++k) model.forward(x(k), recomputes).square().sum().backward();
          (model.forward(x(2), recomputes) * model.forward(x(3), recomputes)).sum().backward();
        }
        gradients.push_back(model.weight.grad().clone());
        parallel.step(optimizer);
      }
    });
  }
  ASSERT_EQ(gradients.size(), 4U);
  for (std::size_t step = 0; step < 2; ++step)
    EXPECT_LE((gradients[step] - gradients[step + 2]).abs().max().item<double>(), 1e-12) << step;
}

TEST(DropoutLayer, EqualInputsWithinOneRecomputedPartAreRefused) {
  test::run_ranks(1, [&](Job& job) {
    Parts model;
    DataParallel parallel(model, job);
    const RecomputedPart twice = [&](const at::Tensor& x) {
      return model.drop(x) * model.drop(x) * model.weight;
    };
    const at::Tensor x = at::ones({4, 32}, at::kDouble).requires_grad_(true);
    EXPECT_THAT(misuse_of([&] { Recomputed::apply(x, &twice).sum().backward(); }),
                testing::HasSubstr("give each use a layer of its own"));
  });
}

TEST(DropoutLayer, RefusesWhatIsNoProbability) {
  EXPECT_THAT(misuse_of([] { Dropout(1.5); }), testing::HasSubstr("1.5 is not between 0 and 1"));
}

}  // namespace
}  // namespace paceline::tensor_test
