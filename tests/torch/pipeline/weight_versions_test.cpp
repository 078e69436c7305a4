// Versions of a stage differ in their weights alone: layers of all kinds compute on them.
#include "paceline/torch/pipeline/weight_versions.h"

#include "tests/torch/pipeline/asynchronous_trainings.h"

namespace paceline {
namespace {

using namespace pipeline_tests;

// A stage's forwards in training move its running statistics, whatever version they run on, and its
// masks are those of the mini-batch.
TEST(PipeDream, VersionsShareBuffersAndMasks) {
  const auto layers = [] {
    Layers all(4);
    all.add("flatten", [] { return nn::Flatten(); }).add("in", doubled(nn::LinearOptions(25, 9)));
    all.add("norm", [] { return as_double(nn::BatchNorm1d(9)); });
    all.add("drop", [] { return paceline::Dropout(0.5); });
    all.add("head", doubled(nn::LinearOptions(9, 3)));
    return all;
  };
  std::vector<torch::OrderedDict<std::string, at::Tensor>> ends;
  for (const char* layout : {"pp=1", "pp=2", "pp=3"}) {
    const int ranks = layout[3] - '0';
    run_alone(ranks, [&](Job& job) {
      DeviceMesh mesh(job, layout);
      // Without a rate all versions are the same weights.
      Pipeline pipeline(layers(), mesh, endless("pipedream", 1, plain(0)));
      for (const Batch& batch : batches_of(6)) pipeline.step(batch.data, batch.target);
      auto state = pipeline.state();
      pipeline.eval();
      state.insert("output", pipeline.forward(batches_of(1)[0].data));
      if (job.rank() == 0) ends.push_back(std::move(state));
    });
  }
  for (const auto& each : ends[0])
    for (std::size_t i = 1; i < ends.size(); ++i)
      EXPECT_TRUE(each.value().equal(ends[i][each.key()])) << each.key();
  EXPECT_EQ(ends[0]["norm.num_batches_tracked"].item<std::int64_t>(), 6);
}

// Masks are those of the first pass, though later micro-batches have gone forward since.
TEST(PipeDream, WhatIsComputedAgainHasItsMasks) {
  const auto layers = [] {
    Layers all(4);
    all.add("flatten", [] { return nn::Flatten(); }).add("in", doubled(nn::LinearOptions(25, 9)));
    all.add("drop", [] { return paceline::Dropout(0.4); });
    all.add("second", doubled(nn::LinearOptions(9, 9))).add("tanh", [] { return nn::Tanh(); });
    all.add("drop2", [] { return paceline::Dropout(0.4); });
    all.add("third", doubled(nn::LinearOptions(9, 9)));
    all.add("head", doubled(nn::LinearOptions(9, 3)));
    return all;
  };
  for (const char* schedule : {"pipedream", "pipedream:sync=vertical", "pipedream_2bw"}) {
    const int micro_batches = std::string(schedule) == "pipedream_2bw" ? 3 : 1;
    std::vector<at::Tensor> kept;
    for (const char* recompute : {"none", "full", "every:2"}) {
      PipelineOptions options = endless(schedule, micro_batches, plain(0.1));
      options.recompute = recompute;
      options.partition = "0-3,4-6,7-7";
      const Trained got = train_through(3, layers, options, batches_of(8));
      if (kept.empty()) kept = got.parameters;
      EXPECT_LE(greatest_difference(got.parameters, {kept}), 1e-12)
          << schedule << ", recompute " << recompute;
    }
  }
}

// Of a convolution that were given other weights between its passes, the gradient would be another.
TEST(PipeDream, ConvolutionsAndRunningStatisticsKeepTheirVersions) {
  const auto layers = [] {
    Layers all(6);
    all.add("conv", [] { return as_double(nn::Conv2d(nn::Conv2dOptions(1, 4, 3).padding(1))); });
    all.add("norm", [] { return as_double(nn::BatchNorm2d(4)); });
    all.add("relu", [] { return nn::ReLU(); });
    all.add("conv2", [] { return as_double(nn::Conv2d(4, 5, 3)); });
    all.add("flatten", [] { return nn::Flatten(); });
    all.add("head", doubled(nn::LinearOptions(45, 3)));
    return all;
  };
  const std::vector<Batch> batches = batches_of(30);
  const Trained got = train_through(3, layers, endless("pipedream", 1, momentum(0.05)), batches);
  const Told expected = run({.layers = layers,
                             .first_layers = got.first_layers,
                             .version_of = versions_of("pipedream", 3),
                             .optimizer = momentum(0.05)},
                            batches);
  EXPECT_LE(greatest_difference(got.parameters, expected.end), 1e-12);
}

TEST(PipeDream, LayersMayBeSplitAmongRanks) {
  const auto layers = [] {
    Layers all(6);
    all.add("flatten", [] { return nn::Flatten(); });
    all.add("a", [] { return as_double(paceline::Linear(25, 8)); });
    all.add("tanh", [] { return nn::Tanh(); });
    all.add("b", [] { return as_double(paceline::Linear(8, 6)); });
    all.add("tanh2", [] { return nn::Tanh(); }).add("head", doubled(nn::LinearOptions(6, 3)));
    return all;
  };
  const std::vector<Batch> batches = batches_of(12);
  PipelineOptions options = endless("pipedream", 1, adam());
  options.partition = "0-3,4-5";
  options.tensor_plan = {{"a", ParallelStyle::column}, {"b", ParallelStyle::row}};
  std::vector<at::Tensor> parameters;
  run_alone(4, [&](Job& job) {
    DeviceMesh mesh(job, "pp=2,tp=2");
    Pipeline pipeline(layers(), mesh, options);
    for (const Batch& batch : batches) pipeline.step(batch.data, batch.target);
    const auto state = pipeline.state();
    if (job.rank() == 0) parameters = state.values();
  });
  const Told expected = run({.layers = layers,
                             .first_layers = {0, 4},
                             .version_of = versions_of("pipedream", 2),
                             .optimizer = adam()},
                            batches);
  EXPECT_LE(greatest_difference(parameters, expected.end), 1e-10);
}

}  // namespace
}  // namespace paceline
