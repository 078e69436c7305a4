#include "paceline/torch/shard/sharding_refusals.h"

#include "tests/torch/shard/sharded_training.h"

namespace paceline {
namespace {

using namespace sharded_tests;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal_of(const std::function<void(DataParallelOptions&)>& adjust,
                       nn::Sequential model = mlp(at::kFloat)) {
  std::string text;
  test::run_ranks(1, [&](Job& job) {
    DataParallelOptions options = options_of({2, 1});
    adjust(options);
    text = misuse_of([&] { const DataParallel parallel(model, job, options); });
  });
  return text;
}

TEST(ShardingRefusals, TellTheOptionAndTheRemedy) {
  EXPECT_THAT(refusal_of([](auto& o) { o.zero_stage = 4; }), HasSubstr("zero_stage is 4"));
  EXPECT_THAT(refusal_of([](auto& o) { o.zero_stage = -1; }), HasSubstr("zero_stage is -1"));
  EXPECT_THAT(refusal_of([](auto& o) { o.zero_prefetch = -1; }), HasSubstr("zero_prefetch is -1"));
  EXPECT_THAT(refusal_of([](auto& o) {
                o.optimizer = [](const at::Tensor& parameter) {
                  return optimizer_of("sgd", {parameter});
                };
              }),
              AllOf(HasSubstr("DataParallelOptions::optimizer"), HasSubstr("parameters()")));
  EXPECT_THAT(refusal_of([](auto& o) { o.synchrony = "local_sgd:period=4"; }),
              AllOf(HasSubstr("local_sgd:period=4"), HasSubstr("take \"synchronous\"")));
  EXPECT_THAT(refusal_of([](auto& o) { o.compression = "int8"; }),
              AllOf(HasSubstr("\"int8\""), HasSubstr("\"none\", \"fp16\" or \"bf16\"")));
  EXPECT_THAT(refusal_of([](auto& o) { o.precision = "o2"; }),
              AllOf(HasSubstr("\"o2\""), HasSubstr("zero_stage 2"), HasSubstr("\"o1\"")));
  EXPECT_THAT(refusal_of([](auto& o) { o.schedule = "priority"; }),
              AllOf(HasSubstr("\"priority\""), HasSubstr("take \"buckets\"")));
  EXPECT_THAT(refusal_of([](auto&) {}, mlp(at::kBFloat16)),
              AllOf(HasSubstr("1.weight"), HasSubstr("float32")));
  const nn::Sequential table(nn::Embedding(nn::EmbeddingOptions(5, 3).sparse(true)));
  EXPECT_THAT(refusal_of([](auto&) {}, table), AllOf(HasSubstr("0.weight"), HasSubstr("sparse")));
}

// Before the first step: nothing is sent, and the replicas go on.
TEST(ShardingRefusals, NameWhatAnOptimizerMustNotStep) {
  std::vector<nn::Sequential> models = {mlp(at::kFloat), mlp(at::kFloat)};
  test::run_ranks(2, [&](Job& job) {
    nn::Sequential& model = models[static_cast<std::size_t>(job.rank())];
    DataParallel parallel(model, job, options_of({1, 1}));
    torch::optim::SGD whole(model->parameters(), 0.1);
    torch::optim::LBFGS curved(parallel.parameters());
    const auto good = optimizer_of("sgd", parallel.parameters());
    loss_of(model, 0, job.rank()).backward();
    EXPECT_THAT(misuse_of([&] { parallel.step(whole); }),
                AllOf(HasSubstr("'1.weight'"), HasSubstr("parallel.parameters()")));
    EXPECT_THAT(misuse_of([&] { parallel.step(curved); }), HasSubstr("LBFGS"));
    EXPECT_TRUE(parallel.step(*good));
    EXPECT_THAT(misuse_of([&] { parallel.synchrony("local_sgd:period=2"); }),
                HasSubstr("zero_stage"));
    EXPECT_THAT(misuse_of([&] { parallel.rebind(job.world()); }), HasSubstr("zero_stage"));
  });
}

TEST(ShardingRefusals, AWeightThatComesAfterTheForwardPassIsTooLate) {
  std::vector<nn::Sequential> models = {mlp(at::kFloat), mlp(at::kFloat)};
  test::run_ranks(2, [&](Job& job) {
    nn::Sequential& model = models[static_cast<std::size_t>(job.rank())];
    DataParallel parallel(model, job, options_of({3, 1}));
    const at::Tensor loss = loss_of(model, 0, job.rank());
    parallel.weight(3);
    EXPECT_THAT(misuse_of([&] { loss.backward(); }), HasSubstr("before"));
  });
}

TEST(ShardingRefusals, StagesThatDifferBetweenRanksAreAMismatch) {
  std::vector<nn::Sequential> models = {mlp(at::kFloat), mlp(at::kFloat)};
  EXPECT_THROW(
      test::run_ranks(2,
                      [&](Job& job) {
                        nn::Sequential& model = models[static_cast<std::size_t>(job.rank())];
                        const DataParallel parallel(model, job, options_of({job.rank(), 1}));
                      }),
      Error);
}

}  // namespace
}  // namespace paceline
