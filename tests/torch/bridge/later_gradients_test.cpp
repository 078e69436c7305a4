#include "paceline/torch/bridge/later_gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <vector>

#include "paceline/torch/bridge/gradient_hook.h"
#include "tests/support/misuse.h"

namespace paceline {
namespace {

namespace nn = torch::nn;
using test::misuse_of;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

// Three layers in a row, whose gradients tests compare.
struct Model {
  nn::Linear in{6, 5}, middle{5, 5}, out{5, 2};
  at::Tensor x = at::randn({4, 6}).set_requires_grad(true);

  at::Tensor split(nn::Linear& layer, const at::Tensor& input) const {
    return in_two_parts([&](const at::Tensor& given) { return layer(given); }, input,
                        layer->parameters());
  }
  at::Tensor forward() { return split(out, at::tanh(split(middle, at::tanh(split(in, x))))); }
  Tensors parameters() const {
    return {in->weight, in->bias, middle->weight, middle->bias, out->weight, out->bias};
  }
  Tensors all() const {
    Tensors all = parameters();
    all.push_back(x);
    return all;
  }
  void forget() const {
    for (const at::Tensor& each : all()) each.mutable_grad().reset();
  }
};

Tensors gradients_of(const Tensors& tensors) {
  Tensors gradients;
  for (const at::Tensor& each : tensors)
    gradients.push_back(each.grad().defined() ? each.grad().clone() : at::Tensor());
  return gradients;
}

void expect_same(const Tensors& got, const Tensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), expected[i].defined()) << i;
    EXPECT_TRUE(!got[i].defined() || got[i].equal(expected[i])) << i;
  }
}

at::Tensor run(LaterGradients& later, const std::function<at::Tensor()>& forward) {
  const LaterGradients::Scope scope(later);
  return forward();
}

class LaterGradientsOfAModel : public ::testing::Test {
 protected:
  LaterGradientsOfAModel() { torch::manual_seed(3); }
  // The gradients of a plain pass.
  Tensors plain(const std::function<at::Tensor()>& forward) {
    forward().backward(gradient_);
    Tensors gradients = gradients_of(model_.all());
    model_.forget();
    return gradients;
  }

  Model model_;
  at::Tensor gradient_ = at::randn({4, 2});
};

TEST_F(LaterGradientsOfAModel, AreAbsentAfterTheBackwardPassAndHaveItsBitsWhenTheyAreMade) {
  const Tensors expected = plain([this] { return model_.forward(); });
  LaterGradients later;
  const at::Tensor output = run(later, [this] { return model_.forward(); });
  later.settle({output});
  EXPECT_FALSE(later.is_empty());
  output.backward(gradient_);
  EXPECT_TRUE(model_.x.grad().equal(expected.back()));
  for (const at::Tensor& parameter : model_.parameters()) EXPECT_FALSE(parameter.grad().defined());
  later.make();
  expect_same(gradients_of(model_.all()), expected);
}

TEST_F(LaterGradientsOfAModel, OfSeveralPassesAddUpInTheOrderInWhichTheyAreMade) {
  const auto forward = [this] { return model_.forward(); };
  for (int pass = 0; pass < 3; ++pass) forward().backward(gradient_ * (pass + .3));
  const Tensors expected = gradients_of(model_.all());
  model_.forget();
  std::vector<LaterGradients> passes(3);
  Tensors outputs;
  for (LaterGradients& each : passes) outputs.push_back(run(each, forward));
  for (std::size_t pass = 0; pass < 3; ++pass) {
    passes[pass].settle({outputs[pass]});
    outputs[pass].backward(gradient_ * (static_cast<int>(pass) + .3));
  }
  for (LaterGradients& each : passes) each.make();
  expect_same(gradients_of(model_.all()), expected);
}

TEST_F(LaterGradientsOfAModel, ReachTheHooksOfAParameterOnceAlsoWhereLayersShareIt) {
  const auto forward = [this] {
    at::Tensor y = at::tanh(model_.split(model_.in, model_.x));
    for (int i = 0; i < 3; ++i) y = at::tanh(model_.split(model_.middle, y));
    return model_.split(model_.out, y);
  };
  const Tensors expected = plain(forward);
  int fired = 0;
  const GradientHook hook(model_.middle->weight, {[] { return true; }, [&](bool) { ++fired; }});
  LaterGradients later;
  const at::Tensor output = run(later, forward);
  later.settle({output});
  output.backward(gradient_);
  EXPECT_EQ(fired, 0);
  later.make();
  EXPECT_EQ(fired, 1);
  expect_same(gradients_of(model_.all()), expected);
}

TEST_F(LaterGradientsOfAModel, LeaveOutAParameterThatSomethingElseUsesToo) {
  const auto forward = [this] {
    const at::Tensor y =
        at::matmul(model_.forward().repeat({1, 3}).narrow(1, 0, 5), model_.middle->weight);
    return y.narrow(1, 0, 2);
  };
  const Tensors expected = plain(forward);
  int fired = 0;
  const GradientHook hook(model_.middle->weight, {[] { return true; }, [&](bool) { ++fired; }});
  LaterGradients later;
  const at::Tensor output = run(later, forward);
  later.settle({output});
  output.backward(gradient_);
  EXPECT_EQ(fired, 1);
  EXPECT_TRUE(model_.middle->weight.grad().equal(expected[2]));
  EXPECT_TRUE(model_.middle->bias.grad().equal(expected[3])) << "of the same layer";
  EXPECT_FALSE(model_.in->weight.grad().defined());
  later.make();
  EXPECT_EQ(fired, 1);
  expect_same(gradients_of(model_.all()), expected);
}

TEST_F(LaterGradientsOfAModel, AreMadeAtOnceWithoutAScopeAndOfFrozenParametersNever) {
  model_.out->weight.set_requires_grad(false);
  const Tensors expected = plain([this] { return model_.forward(); });
  EXPECT_TRUE(expected[0].defined());
  EXPECT_FALSE(expected[4].defined());
  LaterGradients later;
  const at::Tensor output = run(later, [this] { return model_.forward(); });
  later.settle({output});
  output.backward(gradient_);
  later.make();
  expect_same(gradients_of(model_.all()), expected);
}

TEST_F(LaterGradientsOfAModel, OfAnInputWithoutAGradientAreAllThatIsMade) {
  const at::Tensor words = at::randint(7, {4, 3});
  const nn::Embedding embedding(7, 2);
  const auto look_up = [&](const at::Tensor& given) {
    return at::embedding(embedding->weight, given);
  };
  LaterGradients later;
  const at::Tensor output =
      run(later, [&] { return in_two_parts(look_up, words, {embedding->weight}); });
  later.settle({output});
  output.sum().backward();
  EXPECT_FALSE(embedding->weight.grad().defined());
  later.make();
  const at::Tensor made = embedding->weight.grad().clone();
  embedding->weight.mutable_grad().reset();
  look_up(words).sum().backward();
  EXPECT_TRUE(made.equal(embedding->weight.grad()));
}

// A layer may compute forces from energies in its forward pass.
TEST_F(LaterGradientsOfAModel, AreNotLeftByPassesWithinTheForwardPass) {
  LaterGradients later;
  const at::Tensor output = run(later, [this] { return model_.forward(); });
  const auto asked = torch::autograd::grad({output.sum()}, {model_.x, model_.in->weight}, {},
                                           /*retain_graph=*/true);
  const auto expected =
      torch::autograd::grad({model_.forward().sum()}, {model_.x, model_.in->weight});
  expect_same(asked, expected);
  later.settle({output});
  output.backward(gradient_);
  later.make();
  EXPECT_TRUE(model_.in->weight.grad().defined());
}

TEST_F(LaterGradientsOfAModel, AreRefusedWhereGradientsOfGradientsAreAskedFor) {
  LaterGradients later;
  const at::Tensor output = run(later, [this] { return model_.forward(); });
  EXPECT_THAT(misuse_of([&] {
                torch::autograd::grad({output.sum()}, {model_.x}, {}, /*retain_graph=*/true,
                                      /*create_graph=*/true);
              }),
              HasSubstr("create_graph"));
  output.backward(gradient_);
  EXPECT_THAT(misuse_of([&] { output.backward(gradient_); }), HasSubstr("retain_graph"));
}

}  // namespace
}  // namespace paceline
