// A cut changes no initial value, and no name.
#include "paceline/torch/pipeline/layers.h"

#include "paceline/torch/pipeline/stage_module.h"
#include "tests/torch/pipeline/small_pipelines.h"

namespace paceline {
namespace {

using namespace pipeline_tests;

TEST(Layers, StagesHaveTheValuesAndNamesOfTheWholeModel) {
  const Layers layers = mlp();
  const pipeline::StageModule whole(layers, 0, layers.size() - 1);
  const auto expected = whole.named_parameters();
  EXPECT_TRUE(expected.contains("blocks.1.weight"));
  for (int cut = 1; cut < layers.size(); ++cut) {
    std::size_t seen = 0;
    for (const auto& [first, last] : {std::pair(0, cut - 1), std::pair(cut, layers.size() - 1)}) {
      torch::manual_seed(cut);  // is of no matter
      const pipeline::StageModule stage(layers, first, last);
      for (const auto& each : stage.named_parameters()) {
        EXPECT_TRUE(each.value().equal(expected[each.key()])) << each.key();
        ++seen;
      }
    }
    EXPECT_EQ(seen, expected.size());
  }
}

TEST(Layers, TheProcesssGeneratorGoesOnAsItWas) {
  torch::manual_seed(3);
  const at::Tensor expected = at::rand({4});
  torch::manual_seed(3);
  const pipeline::StageModule stage(mlp(), 0, 3);
  EXPECT_TRUE(at::rand({4}).equal(expected));
}

TEST(Layers, AModelThatIsThereKeepsItsValues) {
  nn::Sequential model(nn::Flatten(), nn::Linear(25, 4), nn::Tanh(), nn::Linear(4, 3));
  const pipeline::StageModule stage(Layers(model), 0, 3);
  const at::Tensor x = at::ones({2, 5, 5});
  EXPECT_TRUE(const_cast<pipeline::StageModule&>(stage).forward({x})[0].equal(model->forward(x)));
  EXPECT_TRUE(stage.named_parameters().contains("3.bias"));
}

TEST(Layers, RefusesTwoLayersOfOneName) {
  Layers layers;
  layers.add("a", [] { return nn::Tanh(); });
  EXPECT_THAT(misuse_of([&] { layers.add("a", [] { return nn::Tanh(); }); }), HasSubstr("\"a\""));
  EXPECT_THAT(misuse_of([&] { layers.add("", [] { return nn::Tanh(); }); }), HasSubstr("a name"));
}

}  // namespace
}  // namespace paceline
