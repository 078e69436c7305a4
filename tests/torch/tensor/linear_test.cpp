#include "paceline/torch/tensor/linear.h"

#include "tests/torch/tensor/small_layers.h"

namespace paceline::tensor_test {
namespace {

using enum ParallelStyle;

using Ours = Mlp<Linear>;
using Torchs = Mlp<torch::nn::Linear>;

TEST(LinearLayer, HasTheBitsOfTorchsUntilAPlanSplitsIt) {
  const auto ours = drawn(3, [] { return std::make_shared<Ours>(); });
  const auto torchs = drawn(3, [] { return std::make_shared<Torchs>(); });
  const at::Tensor x = numbers(5, {7, 6}).to(at::kFloat);
  const at::Tensor a = ours->forward(x), b = torchs->forward(x);
  EXPECT_TRUE(a.equal(b));
  a.square().sum().backward();
  b.square().sum().backward();
  const auto mine = ours->named_parameters(), other = torchs->named_parameters();
  ASSERT_EQ(mine.keys(), other.keys());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    EXPECT_TRUE(mine[i].value().equal(other[i].value())) << mine[i].key();
    EXPECT_TRUE(mine[i].value().grad().equal(other[i].value().grad())) << mine[i].key();
  }
}

// Output and gradients of the MLP whose layers have these styles, on `ranks`, are those of one
// process.
void expect_as_one_process(int ranks, ParallelStyle up, ParallelStyle down) {
  const auto one = drawn(3, [] { return std::make_shared<Ours>(); });
  one->to(at::kDouble);
  const at::Tensor x = numbers(5, {3, 7, 6}).requires_grad_();
  const at::Tensor expected = one->forward(x), weights = numbers(6, expected.sizes());
  (expected * weights).sum().backward();
  test::run_ranks(ranks, [&](Job& job) {
    DeviceMesh mesh(job, "tp=" + std::to_string(ranks));
    const auto model = drawn(3, [] { return std::make_shared<Ours>(); });
    model->to(at::kDouble);
    parallelize(*model, mesh, {{"up", up}, {"down", down}});
    const at::Tensor own_x = x.detach().clone().requires_grad_();
    const at::Tensor y = model->forward(own_x);
    EXPECT_LE(distance(y, expected), 1e-12);
    (y * weights).sum().backward();
    EXPECT_LE(distance(own_x.grad(), x.grad()), 1e-12);
    const auto placements = tensor::placements_of(*model);
    for (const auto& item : one->named_parameters()) {
      const at::Tensor& part = model->named_parameters()[item.key()];
      EXPECT_LE(distance(placements.gathered(part, part.grad()), item.value().grad()), 1e-12)
          << item.key();
    }
  });
}

TEST(LinearLayer, ColumnThenRowAreOneProcessWithOneSumForwardAndOneBackward) {
  for (const int ranks : {2, 3, 4}) expect_as_one_process(ranks, column, row);
}

TEST(LinearLayer, SplitGivesWholeOutputsOnAllRanksAlsoInUnevenParts) {
  for (const int ranks : {2, 3, 4}) expect_as_one_process(ranks, split, split);
}

TEST(LinearLayer, KeepsItsShareOfTheMemoryAndTheTensorsThatOptimizersKnow) {
  test::run_ranks(4, [&](Job& job) {
    DeviceMesh mesh(job, "tp=4");
    Ours model;
    const auto before = model.parameters();
    parallelize(model, mesh, {{"up", column}, {"down", row}});
    const auto after = model.parameters();
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(after[i].is_same(before[i]));
    EXPECT_EQ(model.up->weight.storage().nbytes(), 12 * 6 * 4 / 4);
    EXPECT_EQ(model.down->weight.storage().nbytes(), 12 * 4 * 4 / 4);
    for (const at::Tensor& each : after)
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(each.data_ptr()) % 64, 0U);
  });
}

TEST(LinearLayer, RefusesAWholeInputWhereTheLayerBeforeItWasToSplitIt) {
  test::run_ranks(2, [&](Job& job) {
    DeviceMesh mesh(job, "tp=2");
    Ours model;
    parallelize(model, mesh, {{"up", split}, {"down", row}});
    EXPECT_THAT(misuse_of([&] {
                  model.forward(at::ones({1, 6}));
                }),
                testing::AllOf(testing::HasSubstr("layer 'down' is split by rows"),
                               testing::HasSubstr("f32[1, 12]: the whole input"),
                               testing::HasSubstr("style column or heads")));
  });
}

TEST(LinearLayer, TiedToAnEmbeddingIsOneParameterWithOneGradient) {
  Embedding words(5, 3);
  Linear head(torch::nn::LinearOptions(3, 5).bias(false));
  head->tie(*words);
  EXPECT_TRUE(head->parameters().empty());
  head(words(at::arange(5, at::kLong))).sum().backward();
  EXPECT_TRUE(head->weight.is_same(words->weight));
  EXPECT_TRUE(words->weight.grad().defined());
  EXPECT_THAT(misuse_of([&] { Linear(3, 4)->tie(*words); }),
              testing::HasSubstr("f32[4, 3] cannot share that of an Embedding, f32[5, 3]"));
  EXPECT_THAT(misuse_of([&] { head->clone(); }), testing::HasSubstr("cannot be cloned"));
}

}  // namespace
}  // namespace paceline::tensor_test
