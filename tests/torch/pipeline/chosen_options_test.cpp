// Also covers paceline/torch/pipeline/timed_layers.h.
#include "paceline/torch/pipeline/chosen_options.h"

#include <ATen/autocast_mode.h>

#include <fstream>
#include <map>

#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/pipeline/layer_recorder.h"
#include "paceline/torch/pipeline/timed_layers.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/pipeline/small_pipelines.h"

namespace paceline {
namespace {

using namespace pipeline_tests;

// A profile of mlp() in which each layer takes a millisecond, and one of them ten.
schedule::Model profile_of_mlp(std::size_t slow) {
  const Layers layers = mlp();
  std::vector<pipeline::Chunk> chunks;
  chunks.push_back({0, std::make_shared<pipeline::StageModule>(layers, 0, layers.size() - 1)});
  schedule::Model model{.name = "mlp", .tensors = {{.bytes = 4, .forward = 1, .name = "w"}}};
  model.batch = 16;
  model.layers = pipeline::unmeasured_layers(chunks);
  for (schedule::Layer& layer : model.layers) {
    layer.forward = 1e-3;
    layer.output_bytes = layer.saved_bytes = 64;
  }
  model.layers[slow].backward = 9e-3;
  return model;
}

std::string written_profile(const test::TemporaryFolder& folder, const schedule::Model& model) {
  const std::string file = folder.file("profile.json");
  std::ofstream(file) << json_of(model);
  return file;
}

PipelineOptions with_sample(PipelineOptions options) {
  const Batch batch = batch_of(9, 0, 16, at::kFloat);
  options.sample = {{batch.data}, batch.target};
  return options;
}

// One for each rank; all agree on what is not recompute.
std::vector<PipelineOptions> chosen_by(int ranks, const PipelineOptions& options) {
  std::vector<PipelineOptions> all(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  run_ranks(ranks, [&](Job& job) {
    DeviceMesh mesh(job, "pp=" + std::to_string(ranks));
    PipelineOptions own = pipeline::chosen(mlp(), mesh, options);
    const std::lock_guard lock(mutex);
    all[static_cast<std::size_t>(job.rank())] = std::move(own);
  });
  for (const PipelineOptions& one : all) {
    EXPECT_EQ(one.partition, all.front().partition);
    EXPECT_EQ(one.micro_batches, all.front().micro_batches);
  }
  return all;
}

TEST(ChosenOptions, AProfileCutsWhereTheSlowestStageIsQuickest) {
  const std::map<std::size_t, std::string> expected = {
      {0, "0,1-7"}, {2, "0-2,3-7"}, {5, "0-4,5-7"}, {7, "0-6,7"}};
  for (const auto& [slow, partition] : expected) {
    const test::TemporaryFolder folder;
    PipelineOptions options = options_of("1f1b", 4);
    options.partition = written_profile(folder, profile_of_mlp(slow));
    options.recompute = "auto";
    const auto all = chosen_by(2, options);
    EXPECT_EQ(all[0].partition, partition) << slow;
    for (const PipelineOptions& one : all)
      EXPECT_TRUE(one.recompute == "full" || one.recompute.starts_with("every:")) << one.recompute;
  }
}

TEST(ChosenOptions, WhatIsChosenHasTheBitsOfTheSameGivenByHand) {
  at::autocast::set_autocast_cache_enabled(false);
  PipelineOptions open = with_sample(options_of("1f1b", automatic));
  open.partition = "automatic";
  open.recompute = "auto";
  std::mutex mutex;
  PipelineOptions given = options_of("1f1b", 1);
  std::vector<std::string> digests;
  const auto trained = [&](Job& job, const PipelineOptions& options, bool is_open) {
    DeviceMesh mesh(job, "pp=2");
    Pipeline pipeline(cnn(), mesh, options);
    for (int step = 0; step < 4; ++step) {
      const Batch batch = batch_of(step, 0, 16, at::kFloat);
      pipeline.step(batch.data, batch.target);
    }
    const std::string digest = pipeline.parameters_sha256();
    const std::lock_guard lock(mutex);
    digests.push_back(digest);
    if (!is_open) return;
    EXPECT_EQ(16 % pipeline.micro_batches(), 0);
    EXPECT_NE(pipeline.recompute(), "auto");
    given.micro_batches = pipeline.micro_batches();
    const int cut = pipeline.first_layers()[1];
    given.partition = c10::str("0-", cut - 1, ",", cut, "-", cnn().size() - 1);
  };
  run_ranks(2, [&](Job& job) { trained(job, open, true); });
  run_ranks(2, [&](Job& job) { trained(job, given, false); });
  ASSERT_EQ(digests.size(), 4u);
  for (const std::string& digest : digests) EXPECT_EQ(digest, digests.front());
}

TEST(ChosenOptions, MicroBatchesAreADivisorOfTheBatchThatTheScheduleAllows) {
  for (const char* schedule : {"sequential", "gpipe", "interleaved:chunks=2", "zero_bubble"}) {
    const auto all = chosen_by(2, with_sample(options_of(schedule, automatic)));
    const int m = all[0].micro_batches;
    EXPECT_TRUE(m >= 1 && 16 % m == 0) << schedule << ": " << m;
    EXPECT_TRUE(m % 2 == 0 || !std::string(schedule).starts_with("interleaved")) << m;
  }
}

TEST(ChosenOptions, LayersThatAreTimedLeaveNoTrace) {
  nn::Sequential model(nn::Flatten(), nn::Linear(25, 8), nn::BatchNorm1d(8), nn::Dropout(0.5),
                       nn::Linear(8, 3));
  std::vector<at::Tensor> before;
  for (const at::Tensor& one : model->buffers()) before.push_back(one.clone());
  at::manual_seed(4);
  const at::Tensor expected = at::rand({4});
  at::manual_seed(4);
  const auto measured = pipeline::timed_layers(model, with_sample(options_of("1f1b", 1)), 8);
  EXPECT_TRUE(at::rand({4}).equal(expected));
  ASSERT_EQ(measured.size(), 5u);
  EXPECT_EQ(measured[1].output_bytes, 8u * 8 * 4);
  EXPECT_GT(measured[1].backward, 0);
  const auto buffers = model->buffers();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(buffers[i].equal(before[i])) << i;
  for (const at::Tensor& one : model->parameters()) EXPECT_FALSE(one.grad().defined());
}

TEST(ChosenOptions, WhatCannotBeChosenIsRefusedOnAllRanksWithTheRemedy) {
  const auto refusal = [](const PipelineOptions& options) {
    std::vector<std::string> texts(2);
    run_ranks(2, [&](Job& job) {
      DeviceMesh mesh(job, "pp=2");
      texts[static_cast<std::size_t>(job.rank())] =
          misuse_of([&] { Pipeline pipeline(mlp(), mesh, options); });
    });
    EXPECT_EQ(texts[0], texts[1]);
    return texts[1];
  };
  const auto with_partition = [](const std::string& partition) {
    PipelineOptions options = options_of("1f1b", 4);
    options.partition = partition;
    return options;
  };
  const test::TemporaryFolder folder;
  schedule::Model other = profile_of_mlp(3);
  other.layers[3].parameters += 1;
  other.layers[3].weight_bytes += 4;
  EXPECT_THAT(refusal(with_partition(written_profile(folder, other))),
              AllOf(HasSubstr("another model"), HasSubstr("'second' with 235"),
                    HasSubstr("'second' with 234")));
  other.layers.pop_back();
  EXPECT_THAT(refusal(with_partition(written_profile(folder, other))),
              AllOf(HasSubstr("7 layers"), HasSubstr("this model 8")));
  other.layers.clear();
  EXPECT_THAT(refusal(with_partition(written_profile(folder, other))),
              HasSubstr("paceline profile"));
  EXPECT_THAT(refusal(with_partition("nobody.json")),
              AllOf(HasSubstr("nobody.json"), HasSubstr("0-3,4-6"), HasSubstr("automatic")));
  EXPECT_THAT(refusal(with_partition("automatic")), HasSubstr("PipelineOptions::sample"));
  EXPECT_THAT(refusal(options_of("1f1b", automatic)), HasSubstr("PipelineOptions::sample"));
  PipelineOptions too_few = with_sample(with_partition("0-7"));
  too_few.recompute = "auto";
  EXPECT_THAT(refusal(too_few), AllOf(HasSubstr("makes 1 stages"), HasSubstr("has 2")));
  PipelineOptions replicated = with_sample(options_of("pipedream", 1));
  replicated.partition = "0-7x2";
  replicated.recompute = "auto";
  EXPECT_THAT(refusal(replicated), AllOf(HasSubstr("\"0-7x2\" replicates"), HasSubstr("by hand")));
  EXPECT_THAT(refusal(with_sample(options_of("pipedream", automatic))),
              AllOf(HasSubstr("pipedream"), HasSubstr("give a number")));
}

}  // namespace
}  // namespace paceline
