// The model alone, out of a checkpoint.
#include "paceline/torch/checkpointing/load_weights.h"

#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;

TEST(LoadWeights, TakesTheModelOfEveryStageFromARunOrAStep) {
  for (int stage = 0; stage <= 3; ++stage) {
    const TemporaryFolder folder;
    Training training{.directory = folder.file("run"), .every = 2};
    training.parallel.zero_stage = stage;
    const std::string expected = training.run(4);
    Net net;
    for (const char* directory : {"run", "run/step-00000004"}) {
      for (at::Tensor& one : net.parameters()) one.data().zero_();
      const LoadedWeights report =
          load_weights(static_cast<nn::Module&>(net), folder.file(directory));
      EXPECT_EQ(report.step, 4U);
      EXPECT_EQ(report.loaded.size(), 8U);
      EXPECT_EQ(sha256_of(net.parameters()), expected) << stage << ' ' << directory;
    }
    load_weights(static_cast<nn::Module&>(net), folder.file("run/step-00000002"));
    EXPECT_NE(sha256_of(net.parameters()), expected);
  }
}

TEST(LoadWeights, WritesSegmentsAndMastersOfADataParallel) {
  const TemporaryFolder folder;
  const Training training{.directory = folder.file("run"), .type = at::kFloat};
  training.run(4);
  std::map<std::string, std::string> after;
  for (const std::string setting : {"0", "1", "2", "3", "o2"}) {
    run_ranks(2, [&](Job& job) {
      auto net = std::make_shared<Net>(at::kFloat);
      DataParallelOptions options = kSmallBuckets;
      if (setting == "o2") options.precision = "o2";
      else options.zero_stage = setting[0] - '0';
      DataParallel parallel(net, job, options);
      optim::SGD optimizer(parallel.parameters(), optim::SGDOptions(0.1));
      const auto step = [&](int number) {
        optimizer.zero_grad();
        const Samples batch = samples(number, 6);
        const auto type = parallel.input_type();
        at::mse_loss(net->forward(batch.x.to(type)).to(at::kFloat), batch.y.to(at::kFloat))
            .backward();
        parallel.step(optimizer);
      };
      step(0);
      const LoadedWeights report = load_weights(parallel, folder.file("run"));
      EXPECT_EQ(report.loaded.size(), 8U) << report.text();
      const auto loaded = parallel.state();
      Net plain(at::kFloat);
      load_weights(static_cast<nn::Module&>(plain), folder.file("run"));
      for (const auto& entry : plain.named_parameters())
        EXPECT_TRUE(at::equal(loaded[entry.key()], entry.value())) << setting << entry.key();
      step(1);
      const auto stepped = parallel.state();
      std::vector<at::Tensor> values;
      for (const auto& entry : net->named_parameters()) values.push_back(stepped[entry.key()]);
      if (job.rank() == 0) after[setting] = sha256_of(values);
    });
  }
  for (const char* setting : {"1", "2", "3"})
    EXPECT_EQ(after[setting], after["0"]) << setting << ": the step after";
}

// A head of another size, a layer that one side lacks.
TEST(LoadWeights, TellsWhatIsMissingUnexpectedAndOfAnotherShape) {
  const TemporaryFolder folder;
  run_ranks(1, [&](Job& job) {
    nn::Sequential model;
    model->push_back("body", nn::Linear(3, 4));
    model->push_back("old", nn::Linear(4, 4));
    model->push_back("head", nn::Linear(4, 2));
    Checkpoints checkpoints(job, folder.file("run"));
    checkpoints.add("model", model);
    checkpoints.resume();
    EXPECT_TRUE(checkpoints.save(1));
    nn::Sequential other;
    other->push_back("body", nn::Linear(3, 4));
    other->push_back("fresh", nn::Linear(4, 4));
    other->push_back("head", nn::LinearImpl(nn::LinearOptions(4, 5).bias(false)));
    const std::string before = sha256_of(other->parameters());
    EXPECT_THAT(misuse_of([&] { load_weights(other, folder.file("run")); }),
                AllOf(HasSubstr("fresh.weight"), HasSubstr("old.bias"), HasSubstr("head.weight"),
                      HasSubstr("strict = false")));
    EXPECT_EQ(sha256_of(other->parameters()), before) << "nothing is written";
    const LoadedWeights report = load_weights(other, folder.file("run"), {.strict = false});
    EXPECT_THAT(report.loaded, ElementsAre("body.weight", "body.bias"));
    EXPECT_THAT(report.missing, ElementsAre("fresh.weight", "fresh.bias"));
    EXPECT_THAT(report.unexpected, ElementsAre("old.weight", "old.bias", "head.bias"));
    EXPECT_THAT(report.other_shape,
                ElementsAre("head.weight: f32[2, 4] in the checkpoint, f32[5, 4] here"));
    EXPECT_TRUE(at::equal(other->named_parameters()["body.weight"],
                          model->named_parameters()["body.weight"]));
    EXPECT_THAT(misuse_of([&] { load_weights(other, folder.file("run"), {.item = "net"}); }),
                AllOf(HasSubstr("no item 'net'"), HasSubstr("'model'")));
  });
  Net net;
  EXPECT_THAT(failure_of([&] { load_weights(static_cast<nn::Module&>(net), folder.file("none")); }),
              HasSubstr("no checkpoint in"));
}

TEST(LoadWeights, TakesTheMastersOfEachOfTwoTrainingsInSixteenBits) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Job& job) {
    auto a = std::make_shared<Net>(at::kFloat), b = std::make_shared<Net>(at::kFloat);
    for (at::Tensor& one : b->parameters()) one.data().mul_(1.7);
    const std::string digest_of_a = sha256_of(a->parameters()),
                      digest_of_b = sha256_of(b->parameters());
    DataParallel parallel_a(a, job, {.precision = "o2"}), parallel_b(b, job, {.precision = "o2"});
    Checkpoints checkpoints(job, folder.file("run"));
    checkpoints.add("a", a);
    checkpoints.add("b", b);
    checkpoints.add("parallel_a", parallel_a);
    checkpoints.add("parallel_b", parallel_b);
    checkpoints.resume();
    EXPECT_TRUE(checkpoints.save(1));
    Net plain(at::kFloat);
    load_weights(static_cast<nn::Module&>(plain), folder.file("run"), {.item = "a"});
    EXPECT_EQ(sha256_of(plain.parameters()), digest_of_a);
    load_weights(static_cast<nn::Module&>(plain), folder.file("run"), {.item = "b"});
    EXPECT_EQ(sha256_of(plain.parameters()), digest_of_b);
  });
}

// Between exchanges each replica has parameters of its own.
TEST(LoadWeights, TakesTheMeanOfReplicasThatDiffered) {
  const TemporaryFolder folder;
  run_ranks(3, [&](Job& job) {
    auto net = std::make_shared<Net>();
    DataParallel parallel(net, job, {.synchrony = "local_sgd:period=100"});
    for (at::Tensor& one : net->parameters()) one.data().fill_(job.rank());
    Checkpoints checkpoints(job, folder.file("run"));
    checkpoints.add("model", net);
    checkpoints.add("parallel", parallel);
    checkpoints.resume();
    EXPECT_TRUE(checkpoints.save(1));
    Net plain;
    load_weights(static_cast<nn::Module&>(plain), folder.file("run"));
    for (const at::Tensor& one : plain.parameters())
      EXPECT_TRUE(at::equal(one, at::ones_like(one)));
  });
}

TEST(LoadWeights, OfParametersOnOtherRanksNamesTheCallForThem) {
  const TemporaryFolder folder;
  const Training training{.directory = folder.file("run")};
  training.run(4);
  run_ranks(2, [&](Job& job) {
    auto net = std::make_shared<Net>();
    DataParallel parallel(net, job, {.zero_stage = 3});
    EXPECT_THAT(misuse_of([&] { load_weights(net, folder.file("run")); }),
                AllOf(HasSubstr("'first.weight'"), HasSubstr("load_weights(parallel, directory)")));
  });
}

}  // namespace
}  // namespace paceline
