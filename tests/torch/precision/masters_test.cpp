// Masters of float32 behind a model of 16 bits.
#include "paceline/torch/precision/masters.h"

#include <bit>

#include "examples/05_tiny_gpt/model.h"
#include "paceline/torch/checkpointing/checkpointing.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/precision/small_model.h"

namespace paceline {
namespace {

using test::run_ranks;

// Round to nearest, ties to even, of what is finite.
std::uint16_t nearest_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

std::vector<replica::Parameter> expect_rounded(DataParallel& parallel) {
  const auto masters = parallel.replicas().masters();
  for (const auto& each : masters) {
    const at::Tensor& model = each.computed;
    EXPECT_EQ(each.tensor.scalar_type(), at::kFloat);
    EXPECT_EQ(model.scalar_type(), at::kBFloat16);
    const auto* const values = each.tensor.const_data_ptr<float>();
    const auto* const rounded = model.const_data_ptr<at::BFloat16>();
    for (std::int64_t i = 0; i < model.numel(); ++i)
      EXPECT_EQ(rounded[i].x, nearest_bf16(values[i])) << each.name << " " << i;
  }
  return masters;
}

TEST(Masters, AreRoundedToNearestIntoTheModelAndAlikeOnAllRanks) {
  std::vector<std::string> digests(2);
  run_ranks(2, [&](Job& job) {
    nn::Sequential model = small_model();
    DataParallel parallel(model, job, {.check_replicas_every = 1, .precision = "o2"});
    EXPECT_EQ(expect_rounded(parallel).size(), 6U);
    auto adam = adam_of(parallel);
    for (int step = 0; step < 4; ++step) {
      adam.zero_grad();
      parallel.backward(loss_of(parallel, model, 10 * step + job.rank()));
      parallel.step(adam);
      expect_rounded(parallel);
    }
    for (const auto& item : model->named_parameters()) {
      const bool is_of_norm = item.key()[0] >= '3' && item.key()[0] <= '5';
      EXPECT_EQ(item.value().scalar_type(), is_of_norm ? at::kFloat : at::kBFloat16) << item.key();
    }
    for (const auto& item : model->named_buffers())
      EXPECT_NE(item.value().scalar_type(), at::kBFloat16) << item.key();
    digests[static_cast<std::size_t>(job.rank())] = digest_of(parallel, model);
  });
  EXPECT_EQ(digests[0], digests[1]);
}

// A sum in 16 bits would drop the small gradient beside the large one.
TEST(Masters, AddGradientsUpInFloat32) {
  run_ranks(1, [&](Job& job) {
    nn::Sequential model(nn::Linear(nn::LinearOptions(4, 4).bias(false)));
    DataParallel parallel(model, job, {.backward_passes_per_step = 2, .precision = "o2"});
    torch::optim::SGD sgd(parallel.parameters(), torch::optim::SGDOptions(0));
    const at::Tensor ones = at::ones({1, 4}, at::kBFloat16);
    parallel.backward(model->forward(ones).to(at::kFloat).sum());
    parallel.backward(model->forward(ones * 0.001).to(at::kFloat).sum());
    parallel.step(sgd);
    const at::Tensor expected = 1 + at::full({4, 4}, 0.001).to(at::kBFloat16).to(at::kFloat);
    EXPECT_TRUE(parallel.parameters()[0].grad().equal(expected));
    EXPECT_FALSE(expected.to(at::kBFloat16).to(at::kFloat).equal(expected));
  });
}

double loss_after(const std::string& precision, int steps) {
  double loss = 0;
  run_ranks(2, [&](Job& job) {
    nn::Sequential model = small_model();
    DataParallel parallel(model, job, {.precision = precision});
    auto adam = adam_of(parallel);
    for (int step = 0; step < steps; ++step) {
      adam.zero_grad();
      const at::Tensor here = loss_of(parallel, model, job.rank());
      parallel.backward(here);
      parallel.step(adam);
      const auto mean = parallel.mean(here.detach()).item<double>();
      if (job.rank() == 0) loss = mean;
    }
  });
  return loss;
}

TEST(Masters, TrainNearlyAsFloat32Does) {
  const double expected = loss_after("none", 20);
  EXPECT_LT(expected, 0.8 * loss_after("none", 1));
  for (const std::string precision : {"o1", "o2", "o1:dtype=fp16", "o2:dtype=fp16"})
    EXPECT_NEAR(loss_after(precision, 20) / expected, 1, 0.05) << precision;
}

double loss_of_gpt(const std::string& precision, const std::string& layout, int ranks) {
  constexpr tiny_gpt::Options kGpt{
      .vocabulary = 40, .length = 16, .features = 32, .heads = 4, .kv_heads = 2, .layers = 1};
  double loss = 0;
  run_ranks(ranks, [&](Job& job) {
    DeviceMesh mesh(job, layout);
    tiny_gpt::Model model = seeded([&] { return tiny_gpt::Model(kGpt); });
    parallelize(*model, mesh, plan_of(kGpt, true));
    DataParallel parallel(
        *model, mesh, {.check_replicas_every = 1, .precision = precision, .max_grad_norm = 0.5});
    auto adam = adam_of(parallel);
    const at::Tensor words = normal(3, 4, 17).mul(1000).abs().to(at::kLong).remainder(40);
    for (int step = 0; step < 6; ++step) {
      adam.zero_grad();
      at::Tensor here;
      {
        const auto scope = parallel.autocast();
        here = model->loss(words.narrow(1, 0, 16), words.narrow(1, 1, 16));
      }
      parallel.backward(here);
      parallel.step(adam);
      if (job.rank() == 0) loss = here.item<double>();
    }
  });
  return loss;
}

TEST(Masters, TrainSplitLayersNearlyAsFloat32Does) {
  const double expected = loss_of_gpt("none", "tp=1", 1);
  for (const std::string precision : {"none", "o1", "o2"})
    EXPECT_NEAR(loss_of_gpt(precision, "tp=2", 2) / expected, 1, 0.02) << precision;
}

TEST(Masters, MayHaveOptimizersThatTheTrainingOwns) {
  std::vector<std::string> digests;
  for (const bool owns : {false, true}) {
    run_ranks(2, [&](Job& job) {
      nn::Sequential model = small_model();
      DataParallelOptions options{.precision = "o2:dtype=fp16,scale=8192", .max_grad_norm = 0.1};
      if (owns) {
        options.optimizer = [](const at::Tensor& parameter, const std::string&) {
          return std::make_unique<torch::optim::Adam>(std::vector<at::Tensor>{parameter},
                                                      torch::optim::AdamOptions(0.01));
        };
      }
      DataParallel parallel(model, job, options);
      auto adam = adam_of(parallel);
      for (int step = 0; step < 3; ++step) {
        adam.zero_grad();
        parallel.backward(loss_of(parallel, model, 10 * step + job.rank()));
        if (owns) parallel.step();
        else parallel.step(adam);
      }
      if (job.rank() == 0) digests.push_back(digest_of(parallel, model));
    });
  }
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(Masters, RefuseAnOptimizerOfTheModelAndModelsOfOtherTypes) {
  run_ranks(1, [&](Job& job) {
    nn::Sequential model = small_model();
    DataParallel parallel(model, job, {.precision = "o2"});
    torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1));
    parallel.backward(loss_of(parallel, model, 0));
    try {
      parallel.step(sgd);
      ADD_FAILURE() << "an optimizer of the model was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("parallel.parameters()"), std::string::npos);
    }
    for (const char* const precision : {"o1", "o2"}) {
      nn::Sequential wide = small_model();
      wide->to(at::kDouble);
      EXPECT_THROW(DataParallel(wide, job, {.precision = precision}), Error);
      EXPECT_EQ(wide->parameters()[0].scalar_type(), at::kDouble);
    }
  });
}

TEST(Masters, TakeWhatWasLoadedWhenTheTrainingIsBoundAgain) {
  run_ranks(2, [&](Job& job) {
    nn::Sequential model = small_model();
    DataParallel parallel(model, job, {.precision = "o2"});
    const auto masters = parallel.replicas().masters();
    const at::Tensor kept = masters[1].tensor.detach().clone();
    {
      const at::NoGradGuard no_grad;
      model->parameters()[0].fill_(0.5);
    }
    parallel.rebind(job.world());
    EXPECT_TRUE(masters[0].tensor.eq(0.5).all().item<bool>());
    EXPECT_TRUE(masters[1].tensor.equal(kept));
    expect_rounded(parallel);
  });
}

// Saved at step 3 or not, step 6 has the same bits, and the scale its place between two steps.
TEST(Masters, GoOnFromACheckpoint) {
  const test::TemporaryFolder folder;
  const auto train = [&](int steps, bool resumes, const std::string& name) {
    std::string digest;
    run_ranks(2, [&](Job& job) {
      nn::Sequential model = small_model();
      DataParallel parallel(model, job, {.precision = "o2:dtype=fp16,scale=1024,interval=4"});
      auto adam = adam_of(parallel);
      Checkpoints checkpoints(job, folder.file(name), {.every = 3, .resume = resumes});
      checkpoints.add("model", model);
      checkpoints.add("parallel", parallel);
      checkpoints.add("optimizer", adam);
      for (std::int64_t step = checkpoints.resume(); step < steps;) {
        adam.zero_grad();
        parallel.backward(loss_of(parallel, model, static_cast<int>(10 * step) + job.rank()));
        parallel.step(adam);
        checkpoints.save_if_due(++step);
      }
      EXPECT_EQ(checkpoints.finish(), 0);
      EXPECT_EQ(scale_of(parallel), steps >= 4 ? 2048 : 1024);
      if (job.rank() == 0) digest = digest_of(parallel, model);
    });
    return digest;
  };
  const std::string expected = train(6, false, "whole");
  EXPECT_NE(train(3, false, "parts"), expected);
  EXPECT_EQ(train(6, true, "parts"), expected);
}

}  // namespace
}  // namespace paceline
