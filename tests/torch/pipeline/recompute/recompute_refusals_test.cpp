// Calls that recompute refuses, by name.
#include "tests/torch/pipeline/recompute/recomputed_runs.h"

namespace paceline::recompute_test {
namespace {

using testing::HasSubstr;

TEST(RecomputeRefusals, AnInputParameterOrConstantThatChangedBeforeBackwardIsRefused) {
  torch::nn::Linear linear(4, 4);
  const at::Tensor mask = at::ones({4});
  const auto text_after = [&](const auto& change) {
    at::Tensor x = numbers(1, {2, 4}), inner = x.requires_grad_(true) * 1;
    const at::Tensor y = recompute([&](const at::Tensor& in) { return linear(in) * mask; }, inner);
    return misuse_of([&] {
      {
        const at::NoGradGuard no_grad;
        change(inner);
      }
      y.sum().backward();
    });
  };
  EXPECT_THAT(text_after([](at::Tensor& x) { x.mul_(2); }), HasSubstr("input 0 (f32[2, 4])"));
  EXPECT_THAT(text_after([&](at::Tensor&) { linear->bias.add_(1); }),
              HasSubstr("parameter 1 (f32[4])"));
  EXPECT_THAT(text_after([&](at::Tensor&) {
                linear->weight.set_data(at::zeros({4, 4}));
              }),
              HasSubstr("parameter 0 (f32[4, 4])"));
  EXPECT_THAT(text_after([&](at::Tensor&) { mask.zero_(); }), HasSubstr("constant 0 (f32[4])"));
  EXPECT_EQ(text_after([](at::Tensor&) {}), "nothing was thrown");
}

TEST(RecomputeRefusals, AFunctionThatWritesToItsInputIsRefused) {
  const at::Tensor x = numbers(1, {4}).requires_grad_(true) * 1;
  EXPECT_THAT(misuse_of([&] { recompute([](const at::Tensor& in) { return in.relu_(); }, x); }),
              HasSubstr("writes to its input 0 (f32[4]) in place"));
}

TEST(RecomputeRefusals, ATensorWithAHistoryThatIsNoInputIsRefused) {
  const at::Tensor hidden = numbers(1, {4}).requires_grad_(true).exp();
  EXPECT_THAT(misuse_of([&] {
                recompute([&](const at::Tensor& x) { return x * hidden; }, numbers(2, {4}));
              }),
              HasSubstr("reads f32[4], which has a history and is not among its inputs"));
}

TEST(RecomputeRefusals, AFunctionThatReturnsSomethingElseTheSecondTimeIsRefused) {
  using Lists = std::function<Tensors(const Tensors&)>;
  const at::Tensor x = numbers(1, {4}).requires_grad_(true);
  const Lists another_number = [](const Tensors& in) {
    return Tensors(at::GradMode::is_enabled() ? 3 : 2, in[0] * 2);
  };
  EXPECT_THAT(misuse_of([&] { recompute(another_number, Tensors{x})[0].sum().backward(); }),
              HasSubstr("returned 2 outputs in the forward pass and 3 when"));
  const Part another_shape = [](const at::Tensor& in) {
    return in.narrow(0, 0, at::GradMode::is_enabled() ? 2 : 3) * 1;
  };
  EXPECT_THAT(misuse_of([&] { recompute(another_shape, x).sum().backward(); }),
              HasSubstr("output 0 of the function was f32[3] in the forward pass and f32[2] when"));
}

TEST(RecomputeRefusals, GradientsOfGradientsOfChosenTensorsAndSecondPassesAreRefused) {
  Block block;
  const at::Tensor x = numbers(1, {5, 24}).requires_grad_(true);
  const at::Tensor loss = recompute(block.part(), x).square().sum();
  EXPECT_THAT(misuse_of([&] { loss.backward({}, true, /*create_graph=*/true); }),
              HasSubstr("leave create_graph out"));
  EXPECT_THAT(misuse_of([&] { torch::autograd::grad({loss}, {x}, {}, true); }),
              HasSubstr("gradients of chosen tensors were asked for"));
  EXPECT_EQ(block.passes, 1);
  loss.backward();
  EXPECT_THAT(misuse_of([&] {
                recompute(block.part(), x).backward(at::ones({5, 24}));
              }),
              "nothing was thrown");
  const at::Tensor y = recompute(block.part(), x);
  y.backward(at::ones({5, 24}));
  EXPECT_THAT(misuse_of([&] { y.backward(at::ones({5, 24})); }), HasSubstr("retain_graph=true"));
  EXPECT_THAT(misuse_of([&] { recompute(Part(), x); }), HasSubstr("the function is empty"));
}

}  // namespace
}  // namespace paceline::recompute_test
