// Backward passes that go by the scale of fp16, or are refused; steps that are skipped one after
// the other.
#include <limits>

#include "paceline/torch/replica/replica.h"
#include "tests/support/misuse.h"
#include "tests/torch/precision/small_model.h"

namespace paceline {
namespace {

using test::run_ranks;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using test::misuse_of;

void expect_names(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

TEST(ScaledPasses, ABackwardOfThePlainLossIsRefusedWithTheRemedyAndUpdatesNothing) {
  for (const std::string precision : {"o1:dtype=fp16", "o2:dtype=fp16"}) {
    for (const bool synchronizes_first : {false, true}) {
      run_ranks(2, [&](Job& job) {
        nn::Sequential model = small_model();
        DataParallel parallel(model, job, {.precision = precision});
        auto adam = adam_of(parallel);
        const std::string before = digest_of(parallel, model);
        loss_of(parallel, model, job.rank()).backward();
        expect_names(misuse_of([&] {
                       if (synchronizes_first) parallel.synchronize();
                       parallel.step(adam);
                     }),
                     {precision, "parallel.backward(loss)", "'"});
        EXPECT_EQ(digest_of(parallel, model), before);
        adam.zero_grad();
        parallel.backward(loss_of(parallel, model, 2 + job.rank()));
        EXPECT_TRUE(parallel.step(adam)) << "the next step is a good one";
        EXPECT_NE(digest_of(parallel, model), before);
      });
    }
  }
}

TEST(ScaledPasses, APlainBackwardAmongScaledOnesOfAStepIsRefused) {
  run_ranks(1, [&](Job& job) {
    nn::Sequential model = small_model();
    DataParallel parallel(model, job,
                          {.backward_passes_per_step = 2, .precision = "o1:dtype=fp16"});
    auto adam = adam_of(parallel);
    loss_of(parallel, model, 0).backward();
    parallel.backward(loss_of(parallel, model, 1));
    expect_names(misuse_of([&] { parallel.step(adam); }), {"parallel.backward(loss)"});
  });
}

struct SmallNet : nn::Module {
  SmallNet() {
    layer = register_module("layer", nn::Linear(8, 4));
    const at::NoGradGuard no_grad;
    for (at::Tensor& each : parameters()) each.fill_(0.25);
  }
  nn::Linear layer{nullptr};
};

// Replicas in fp16 learn nearly what float32 learns in a step.
TEST(ScaledPasses, MirroredReplicasLearnInFp16WhatTheyLearnInFloat32) {
  std::vector<at::Tensor> learnt;
  for (const std::string precision : {"none", "o1:dtype=fp16,scale=1024"}) {
    Mirrored<SmallNet> mirrored(
        {torch::kCPU, torch::kCPU}, [] { return std::make_shared<SmallNet>(); },
        [](std::vector<at::Tensor> parameters) {
          return std::make_unique<torch::optim::SGD>(std::move(parameters), 0.5);
        },
        {.parallel = {.precision = precision}});
    const auto loss = [&](SmallNet& net, const std::vector<at::Tensor>& part) {
      const at::Tensor scores = net.layer(part[0]);
      EXPECT_EQ(scores.scalar_type(), precision == "none" ? at::kFloat : at::kHalf);
      return at::mse_loss(scores.to(at::kFloat), part[1]);
    };
    mirrored.step({normal(1, 6, 8), normal(2, 6, 4)}, loss);
    learnt.push_back(mirrored.replica().layer->weight.detach().clone());
  }
  EXPECT_GT((learnt[0] - 0.25).abs().max().item<double>(), 0.01);
  EXPECT_TRUE(at::allclose(learnt[1], learnt[0], 0, 1e-3)) << learnt[1] << learnt[0];
}

void make_bad_step(DataParallel& parallel, nn::Sequential& model, torch::optim::Adam& adam,
                   bool is_bad) {
  adam.zero_grad();
  const at::Tensor loss = loss_of(parallel, model, 0);
  parallel.backward(is_bad ? loss * kNan : loss);
  parallel.step(adam);
}

TEST(ScaledPasses, TheScaleHasAFloorFromWhichARunRecovers) {
  for (const auto& [setting, floor] : {std::pair<std::string, double>{"", 1}, {",floor=64", 64}}) {
    run_ranks(1, [&](Job& job) {
      nn::Sequential model = small_model();
      DataParallel parallel(model, job, {.precision = "o1:dtype=fp16,scale=8192" + setting});
      auto adam = adam_of(parallel);
      for (int step = 0; step < 60; ++step) make_bad_step(parallel, model, adam, true);
      EXPECT_EQ(scale_of(parallel), floor);
      const std::string before = digest_of(parallel, model);
      make_bad_step(parallel, model, adam, false);
      EXPECT_NE(digest_of(parallel, model), before);
    });
  }
}

TEST(ScaledPasses, TheHundredthSkipInARowEndsTheRunOnEveryRankByName) {
  run_ranks(2, [&](Job& job) {
    nn::Sequential model = small_model();
    DataParallel parallel(model, job, {.precision = "o1:dtype=fp16,scale=1024"});
    auto adam = adam_of(parallel);
    for (int step = 0; step < 99; ++step) make_bad_step(parallel, model, adam, job.rank() == 1);
    const std::string text =
        misuse_of([&] { make_bad_step(parallel, model, adam, job.rank() == 1); });
    expect_names(text, {"step 100", "100 steps in a row", "'"});
    EXPECT_EQ(parallel.last_step().skipped, 100);
  });
}

}  // namespace
}  // namespace paceline
