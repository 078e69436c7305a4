#include "paceline/torch/tensor/parallelize.h"

#include "tests/torch/tensor/small_layers.h"

namespace paceline::tensor_test {
namespace {

using enum ParallelStyle;
using testing::AllOf;
using testing::HasSubstr;

TEST(Plan, AStarStandsForOneElementOfAPath) {
  using tensor::matches;
  EXPECT_TRUE(matches("blocks.*.up", "blocks.3.up"));
  EXPECT_TRUE(matches("*", "head"));
  EXPECT_FALSE(matches("*", "blocks.3"));
  EXPECT_FALSE(matches("blocks.*.up", "blocks.3.mlp.up"));
  EXPECT_FALSE(matches("blocks.*", "blocks"));
  EXPECT_FALSE(matches("blocks.*.up", "blocks.3.upper"));
}

// The refusal of a plan, after which the model is as it was.
std::string refusal(torch::nn::Module& model, int ranks, const TensorPlan& plan) {
  std::string text;
  const std::string before = sha256_of(model.parameters());
  test::run_ranks(ranks, [&](Job& job) {
    DeviceMesh mesh(job, "tp=" + std::to_string(ranks));
    const std::string own = misuse_of([&] { parallelize(model, mesh, plan); });
    if (job.rank() == 0) text = own;
  });
  EXPECT_EQ(sha256_of(model.parameters()), before);
  return text;
}

TEST(Parallelize, RefusesEntriesThatMatchNothingAndListsTheLayers) {
  Mlp<Linear> model;
  EXPECT_THAT(refusal(model, 2, {{"upp", column}}),
              AllOf(HasSubstr("\"upp\" matches no layer"), HasSubstr("the model has up, down")));
}

TEST(Parallelize, RefusesTwoEntriesForOneLayer) {
  Mlp<Linear> model;
  EXPECT_THAT(refusal(model, 2, {{"up", column}, {"*", row}}),
              AllOf(HasSubstr("\"up\" and \"*\""), HasSubstr("layer 'up'")));
}

TEST(Parallelize, RefusesFeaturesAndHeadsThatTheRanksCannotShare) {
  Mlp<Linear> model(10);
  EXPECT_THAT(refusal(model, 4, {{"up", column}, {"down", row}}),
              AllOf(HasSubstr("layer 'up', style column: 4 ranks cannot share its 10 outputs"),
                    HasSubstr("layer 'down', style row: 4 ranks cannot share its 10 inputs")));
  EXPECT_THAT(refusal(model, 2, {{"up", heads}}), HasSubstr("needs the size of a head"));
  EXPECT_THAT(refusal(model, 2, {{"up", heads, 2}}), HasSubstr("cannot share its 5 heads"));
  EXPECT_THAT(refusal(model, 5, {{"down", split}}), HasSubstr("it has 4 outputs for 5 ranks"));
  EXPECT_THAT(refusal(model, 2, {{"up", sequence}}), HasSubstr("is for LayerNorm, Dropout"));
}

TEST(Parallelize, RefusesTorchsLayersThatAreMembersAllByName) {
  Mlp<torch::nn::Linear> model;
  EXPECT_THAT(refusal(model, 2, {{"up", column}, {"down", row}}),
              AllOf(HasSubstr("'up', 'down' cannot be replaced from outside"),
                    HasSubstr("declare it as paceline::Linear")));
}

TEST(Parallelize, RefusesASecondPlan) {
  Mlp<Linear> model;
  test::run_ranks(1, [&](Job& job) {
    DeviceMesh mesh(job, "tp=1");
    parallelize(model, mesh, {{"up", column}});
    EXPECT_THAT(misuse_of([&] {
                  parallelize(model, mesh, {{"up", column}});
                }),
                HasSubstr("it is split already"));
  });
}

struct Stage : torch::nn::Module {
  Stage() {
    layers = register_module("layers",
                             torch::nn::Sequential(torch::nn::Linear(12, 12), torch::nn::Tanh()));
  }
  at::Tensor forward(const at::Tensor& x) { return layers->forward(x); }
  torch::nn::Sequential layers{nullptr};
};

TEST(Parallelize, ReplacesTorchsLayersInSequentialsOverTheSameParameters) {
  const auto make = [] {
    return torch::nn::Sequential(torch::nn::Embedding(9, 6), torch::nn::Linear(6, 12),
                                 torch::nn::Tanh(), Stage(), torch::nn::Linear(12, 4),
                                 torch::nn::LayerNorm(torch::nn::LayerNormOptions({4})));
  };
  torch::nn::Sequential one = drawn(3, make);
  const at::Tensor words = at::arange(9, at::kLong).view({3, 3});
  const at::Tensor expected = one->forward(words);
  test::run_ranks(2, [&](Job& job) {
    DeviceMesh mesh(job, "tp=2");
    torch::nn::Sequential model = drawn(3, make);
    const auto before = model->parameters();
    parallelize(*model, mesh,
                {{"0", vocabulary}, {"1", split}, {"3.layers.0", column}, {"4", row}});
    const auto after = model->parameters();
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(after[i].is_same(before[i]));
    EXPECT_LE(distance(model->forward(words), expected), 1e-5);
    EXPECT_EQ(model[0]->as<EmbeddingImpl>()->weight.size(0), 4 + job.rank());
  });
}

TEST(Parallelize, TakesWhatNoRankSplitsFromRank0) {
  test::run_ranks(2, [&](Job& job) {
    DeviceMesh mesh(job, "tp=2");
    const auto model = drawn(10 + static_cast<std::uint64_t>(job.rank()),
                             [] { return std::make_shared<Mlp<Linear>>(); });
    parallelize(*model, mesh, {{"up", column}, {"down", row}});
    const auto expected = drawn(10, [] { return std::make_shared<Mlp<Linear>>(); });
    const auto whole = whole_parameters(*model);
    for (std::size_t i = 0; i < whole.size(); ++i)
      EXPECT_TRUE(whole[i].equal(expected->parameters()[i])) << "parameter " << i;
    EXPECT_EQ(whole_sha256(*model), sha256_of(whole));
  });
}

}  // namespace
}  // namespace paceline::tensor_test
