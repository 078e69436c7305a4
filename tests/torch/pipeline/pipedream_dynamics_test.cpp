// Stale gradients have the dynamics that theory tells, and no others.
#include <cmath>
#include <numbers>

#include "tests/torch/pipeline/asynchronous_trainings.h"

namespace paceline {
namespace {

using namespace pipeline_tests;

// tanh(x W^T) on each stage.
struct TanhLinearImpl : nn::Cloneable<TanhLinearImpl> {
  explicit TanhLinearImpl(int size) : size_(size) { reset(); }
  void reset() override {
    weight = register_parameter("weight", at::randn({size_, size_}, at::kDouble) * 0.7);
  }
  at::Tensor forward(const at::Tensor& x) { return at::tanh(at::linear(x, weight)); }
  at::Tensor weight;

 private:
  int size_;
};
TORCH_MODULE(TanhLinear);

Layers chain(int stages) {
  Layers layers(2);
  for (int i = 0; i < stages; ++i)
    layers.add("s" + std::to_string(i), [] { return TanhLinear(3); });
  return layers;
}

// Backwards take the newest weights, as they would if no version were kept.
Weights without_stashing(int stages, const std::vector<Batch>& batches, double rate) {
  const Layers layers = chain(stages);
  std::vector<at::Tensor> newest;
  for (int s = 0; s < stages; ++s)
    newest.push_back(layers.make(s)->module()->parameters()[0].detach().clone());
  std::vector<std::vector<at::Tensor>> history = {newest};
  const auto at = [&](int version, int s) {
    return history[static_cast<std::size_t>(std::max(0, version))][static_cast<std::size_t>(s)];
  };
  for (int t = 0; t < static_cast<int>(batches.size()); ++t) {
    std::vector<at::Tensor> xs = {batches[static_cast<std::size_t>(t)].data};
    for (int s = 0; s < stages; ++s)
      xs.push_back(at::tanh(at::linear(xs.back(), at(t - (stages - 1 - s), s))));
    const at::Tensor difference = xs.back() - batches[static_cast<std::size_t>(t)].target;
    at::Tensor dy = 2 * difference / difference.numel();
    std::vector<at::Tensor> next = history.back();
    for (int s = stages; s-- > 0;) {
      const auto place = static_cast<std::size_t>(s);
      const at::Tensor dz = dy * (1 - xs[place + 1].square());
      next[place] = next[place] - rate * dz.t().mm(xs[place]);
      dy = dz.mm(at(t, s));
    }
    history.push_back(std::move(next));
  }
  Weights end;
  for (const at::Tensor& one : history.back()) end.push_back({one});
  return end;
}

TEST(PipeDream, WithoutStashingItWouldBeAnotherTraining) {
  const int stages = 4;
  std::vector<Batch> batches;
  for (int t = 0; t < 30; ++t) {
    const Batch all = batch_of(t, 0, 5, at::kDouble);
    batches.push_back({all.data.flatten(1).narrow(1, 0, 3), at::tanh(all.target)});
  }
  const Trained got = train_through(
      stages, [=] { return chain(stages); }, endless("pipedream", 1, plain(0.3)), batches);
  const Told expected = run({.layers = [=] { return chain(stages); },
                             .first_layers = got.first_layers,
                             .version_of = versions_of("pipedream", stages),
                             .optimizer = plain(0.3)},
                            batches);
  EXPECT_LE(greatest_difference(got.parameters, expected.end), 1e-12);
  EXPECT_GT(greatest_difference(got.parameters, without_stashing(stages, batches, 0.3)), 1e-3);
}

// y = x + w, so that the loss y^2 / 2 of p stages has the largest curvature p.
struct ShiftImpl : nn::Cloneable<ShiftImpl> {
  ShiftImpl() { reset(); }
  void reset() override { weight = register_parameter("weight", at::ones({1}, at::kDouble)); }
  at::Tensor forward(const at::Tensor& x) { return x + weight; }
  at::Tensor weight;
};
TORCH_MODULE(Shift);

TEST(PipeDream, OptionsThatAreSetForABatchAreThoseOfItsUpdateOnAllStages) {
  const int stages = 3;
  Layers layers;
  for (int i = 0; i < stages; ++i) layers.add("s" + std::to_string(i), [] { return Shift(); });
  PipelineOptions options = endless("pipedream", 1, plain(5));
  options.loss = [](const at::Tensor& y, const at::Tensor&) { return y.sum(); };
  run_alone(stages, [&](Job& job) {
    DeviceMesh mesh(job, "pp=3");
    Pipeline pipeline(layers, mesh, options);
    const at::Tensor nothing = at::zeros({1}, at::kDouble);
    double sum = 0;
    for (int t = 0; t < 12; ++t) {
      const double rate = 0.2 / (1 + t);
      pipeline.step(nothing, nothing, [&](torch::optim::Optimizer& optimizer) {
        for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
      });
      if (t == 8) pipeline.finish();
      sum += rate;  // each gradient is 1
    }
    for (const auto& each : pipeline.state())
      EXPECT_NEAR(each.value().item<double>(), 1 - sum, 1e-12) << each.key();
  });
}

// The largest |sum of the weights| over the last 50 of so many steps, over that of steps 50 to 100.
double growth(int stages, double share_of_threshold, int steps) {
  const double threshold = 2 * std::sin(std::numbers::pi / (2 * (2 * (stages - 1) + 1)));
  Layers layers;
  for (int i = 0; i < stages; ++i) layers.add("s" + std::to_string(i), [] { return Shift(); });
  PipelineOptions options =
      endless("pipedream:sync=vertical", 1, plain(share_of_threshold * threshold / stages));
  options.loss = [](const at::Tensor& y, const at::Tensor&) { return y.square().sum() / 2; };
  double before = 0, after = 0;
  run_alone(stages, [&](Job& job) {
    DeviceMesh mesh(job, "pp=" + std::to_string(stages));
    Pipeline pipeline(layers, mesh, options);
    const at::Tensor nothing = at::zeros({1}, at::kDouble);
    double first = 0, last = 0;
    for (int t = 0; t < steps; ++t) {
      const double loss = pipeline.step(nothing, nothing);
      if (t >= 50 && t < 100) first = std::max(first, std::sqrt(2 * loss));
      if (t >= steps - 50) last = std::max(last, std::sqrt(2 * loss));
    }
    pipeline.finish();
    if (job.rank() == 0) before = first, after = last;
  });
  return after / before;
}

TEST(PipeDream, VerticalSyncOnAQuadraticIsStableBelowTheThresholdAlone) {
  EXPECT_LT(growth(2, 0.999, 2000), 0.7);
  EXPECT_GT(growth(2, 1.001, 2000), 1.4);
  EXPECT_LT(growth(3, 0.99, 1000), 0.7);
  EXPECT_GT(growth(3, 1.01, 1000), 1.4);
}

}  // namespace
}  // namespace paceline
