#include "paceline/torch/pipeline/stages_of_rank.h"

#include "tests/torch/pipeline/small_pipelines.h"

namespace paceline::pipeline {
namespace {

using namespace pipeline_tests;

Layers words_and_linears() {
  Layers layers(4);
  layers.add("words", [] { return paceline::Embedding(11, 6); });
  layers.add("linear", [] { return paceline::Linear(6, 5); });
  layers.add("norm", [] { return nn::LayerNorm(nn::LayerNormOptions({5})); });
  layers.add("plain", [] { return nn::Linear(5, 5); });
  return layers;
}

Layers torch_words() {
  Layers layers(4);
  layers.add("words", [] { return nn::Embedding(11, 6); });
  return layers;
}

// A stage by itself, which computes operations one by one.
class StageAlone {
 public:
  StageAlone(const Layers& layers, const at::Tensor& data, bool splits_backward)
      : stages_(
            Order{.ranks = {{}}, .stages = 1, .micro_batches = 2}.placement(), chunks_,
            [](const at::Tensor& output, const at::Tensor&) { return output.pow(2).sum(); }, 0,
            splits_backward) {
    chunks_.push_back({0, std::make_shared<StageModule>(layers, 0, layers.size() - 1), nullptr});
    stages_.begin_step({.samples = {1, 1}, .data = {{data}, {data + 1}}, .target = {{}, {}}},
                       shapes_);
  }
  void compute(Kind kind, int micro_batch) { stages_.compute({kind, 0, micro_batch}); }
  at::Tensor gradient(const std::string& name) const {
    return chunks_[0].module->named_parameters()[name].grad();
  }
  std::vector<std::string> names_with_gradient() const {
    std::vector<std::string> names;
    for (const auto& each : chunks_[0].module->named_parameters())
      if (each.value().grad().defined()) names.push_back(each.key());
    return names;
  }
  std::vector<std::string> names() const { return chunks_[0].module->named_parameters().keys(); }

 private:
  std::vector<Chunk> chunks_;
  const CutShapes shapes_;
  StagesOfRank stages_;
};

const std::vector<std::string> kNone;

TEST(StagesOfRank, GradientsOfWeightsAreAbsentAfterABackwardAndThereAfterItsWeightOperation) {
  StageAlone stage(words_and_linears(), at::tensor({1, 2, 7}), true);
  stage.compute(Kind::forward, 0);
  stage.compute(Kind::backward, 0);
  EXPECT_THAT(stage.names_with_gradient(), ::testing::ElementsAre("norm.weight", "norm.bias"))
      << "a LayerNorm makes all in its backward";
  stage.compute(Kind::weight, 0);
  EXPECT_EQ(stage.names_with_gradient(), stage.names());
}

TEST(StagesOfRank, LayersOfLibtorchLeaveTheirGradientsToo) {
  const auto expect_none_before_weights = [](const Layers& layers, const at::Tensor& data,
                                             const std::vector<std::string>& at_once) {
    StageAlone stage(layers, data, true);
    stage.compute(Kind::forward, 0);
    stage.compute(Kind::backward, 0);
    EXPECT_EQ(stage.names_with_gradient(), at_once);
    stage.compute(Kind::weight, 0);
    EXPECT_EQ(stage.names_with_gradient(), stage.names());
  };
  expect_none_before_weights(mlp(), at::randn({2, 1, 5, 5}), kNone);
  expect_none_before_weights(cnn(), at::randn({2, 1, 5, 5}), {"norm.weight", "norm.bias"});
  expect_none_before_weights(torch_words(), at::tensor({1, 2, 7}), kNone);
}

TEST(StagesOfRank, BackwardsThatAreNotSplitMakeAllGradients) {
  StageAlone stage(words_and_linears(), at::tensor({1, 2, 7}), false);
  stage.compute(Kind::forward, 0);
  stage.compute(Kind::backward, 0);
  EXPECT_EQ(stage.names_with_gradient(), stage.names());
}

TEST(StagesOfRank, WeightOperationsThatComeLateGiveTheBitsOfWholeBackwards) {
  for (const auto& [layers, data] :
       {std::pair(words_and_linears(), at::tensor({1, 2, 7})),
        std::pair(mlp(), at::randn({2, 1, 5, 5})), std::pair(cnn(), at::randn({2, 1, 5, 5}))}) {
    StageAlone late(layers, data, true), whole(layers, data, false);
    using enum Kind;
    for (StageAlone* const stage : {&late, &whole}) {
      torch::manual_seed(5);  // for masks of Dropout
      for (const Kind kind : {forward, backward, weight})
        for (const int micro_batch : {0, 1}) stage->compute(kind, micro_batch);
    }
    for (const std::string& name : whole.names())
      EXPECT_TRUE(late.gradient(name).equal(whole.gradient(name))) << name;
  }
}

}  // namespace
}  // namespace paceline::pipeline
