#include "paceline/torch/pipeline/measured/layer_watch.h"

#include "paceline/torch/pipeline/stage_module.h"
#include "tests/torch/pipeline/small_pipelines.h"

namespace paceline {
namespace {

using namespace pipeline_tests;
using pipeline::LayerWatch;
using pipeline::MeasuredLayer;

struct WatchedPass {
  std::vector<at::Tensor> gradients;
  std::vector<MeasuredLayer> measured;
};

// One pass, or several of which the gradients are of the last.
WatchedPass watched_pass(const Layers& layers, bool is_watched, int passes = 1) {
  at::manual_seed(3);
  pipeline::StageModule model(layers, 0, layers.size() - 1);
  LayerWatch watch(layers.size());
  if (is_watched) model.measure(watch);
  const Batch batch = batch_of(1, 0, 16, at::kFloat);
  for (int pass = 0; pass < passes; ++pass) {
    model.zero_grad();
    const Tensors outputs = model.forward({batch.data});
    watch.begin_backward();
    mse(outputs.front(), batch.target).backward();
    if (is_watched) watch.end_backward(0, layers.size() - 1);
  }
  WatchedPass pass;
  for (const at::Tensor& one : model.parameters()) pass.gradients.push_back(one.grad());
  if (is_watched) pass.measured = watch.measured();
  return pass;
}

// Flatten gives a view. Of what two layers save, the output of relu and the input of "second", the
// first one has the bytes. "tanh" saves its output, which "blocks.0" takes.
TEST(LayerWatch, HasTheBytesThatEachLayerHandsOnAndSaves) {
  const WatchedPass pass = watched_pass(mlp(), true, 2);
  const std::size_t outputs[] = {25, 17, 17, 13, 13, 11, 7, 3};
  const std::size_t saved[] = {0, 25, 17, 0, 13, 0, 11, 7};
  constexpr std::size_t kRow = 16 * sizeof(float);
  ASSERT_EQ(pass.measured.size(), 8u);
  for (std::size_t layer = 0; layer < 8; ++layer) {
    EXPECT_EQ(pass.measured[layer].output_bytes, kRow * outputs[layer]) << layer;
    EXPECT_EQ(pass.measured[layer].saved_bytes, kRow * saved[layer]) << layer;
    EXPECT_GT(pass.measured[layer].forward, 0) << layer;
    EXPECT_GE(pass.measured[layer].backward, 0) << layer;
  }
  EXPECT_EQ(pass.measured[0].backward, 0) << "Flatten has no gradient to make";
  EXPECT_GT(pass.measured[1].backward, 0);
}

TEST(LayerWatch, ChangesNoBitOfAGradient) {
  for (const bool is_cnn : {false, true}) {
    const auto layers = [=] { return is_cnn ? cnn() : mlp(); };
    const WatchedPass plain = watched_pass(layers(), false), seen = watched_pass(layers(), true);
    ASSERT_EQ(plain.gradients.size(), seen.gradients.size());
    for (std::size_t i = 0; i < plain.gradients.size(); ++i)
      EXPECT_TRUE(plain.gradients[i].equal(seen.gradients[i])) << i;
  }
}

// Two layers take long in one direction each.
struct SlowImpl : nn::Module {
  SlowImpl(int forward, int backward) : forward_(forward), backward_(backward) {}
  static void work(int products) {
    const at::NoGradGuard no_grad;
    at::Tensor some = at::eye(128);
    for (int i = 0; i < products; ++i) some = some.mm(some);
  }
  at::Tensor forward(const at::Tensor& x) {
    work(forward_);
    at::Tensor y = x * 1;
    if (y.requires_grad()) {
      y.register_hook([products = backward_](const at::Tensor&) { work(products); });
    }
    return y;
  }
  const int forward_, backward_;
};
TORCH_MODULE(Slow);

TEST(LayerWatch, PartsTheTimesOfBothPassesByLayers) {
  Layers layers(2);
  layers.add("flatten", [] { return nn::Flatten(); }).add("in", [] { return nn::Linear(25, 9); });
  layers.add("there", [] { return Slow(60, 0); }).add("back", [] { return Slow(0, 60); });
  layers.add("head", [] { return nn::Linear(9, 3); });
  const WatchedPass pass = watched_pass(layers, true, 8);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_LE(pass.measured[i].forward, pass.measured[2].forward) << i;
    EXPECT_LE(pass.measured[i].backward, pass.measured[3].backward) << i;
  }
}

}  // namespace
}  // namespace paceline
