// A checkpoint of a pipeline goes on under any layout, and one of a DataParallel as a pipeline.
#include "paceline/torch/checkpointing/checkpoints.h"
#include "paceline/torch/checkpointing/load_weights.h"
#include "paceline/torch/pipeline/made_stages.h"
#include "paceline/torch/pipeline/stage_module.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/pipeline/small_pipelines.h"

namespace paceline::pipeline_tests {
namespace {

constexpr int kSavedSteps = 3, kAllSteps = 6;

struct Way {
  std::string layout = "pp=1";
  int ranks = 1;
  std::string schedule = "1f1b";
  std::string precision = "none";
  int zero_stage = 0;
  bool is_data_parallel = false;  // a plain program, without Pipeline
};

std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.layout << ", " << way.schedule << ", " << way.precision << ", zero_stage "
             << way.zero_stage << (way.is_data_parallel ? ", DataParallel" : "");
}

Layers layers_of(const Way& way) {
  return mlp(way.precision == "none" ? at::kDouble : at::kFloat);
}

at::ScalarType type_of(const Way& way) {
  return way.precision == "none" ? at::kDouble : at::kFloat;
}

struct Run {
  std::vector<double> losses;
  std::vector<at::Tensor> parameters;  // of the whole model, when it began to train
  double scale = 1;                    // of the loss, with fp16, when it ended
};

Batch batch_of(const Way& way, DeviceMesh& mesh, int step) {
  const Batch whole = pipeline_tests::batch_of(step, 0, 16, type_of(way));
  const at::Tensor rows = at::arange(mesh.rank("dp"), 16, mesh.size("dp"));
  return {whole.data.index_select(0, rows), whole.target.index_select(0, rows)};
}

// This is a program that knows no pipelines.
Run train_plainly(Job& job, const Way& way, const std::string& folder, int from, int to) {
  Run run;
  DeviceMesh mesh(job, way.layout);
  const Layers layers = layers_of(way);
  pipeline::StageModule model(layers, 0, layers.size() - 1);
  DataParallelOptions options{.precision = way.precision};
  options.zero_stage = way.zero_stage;
  DataParallel parallel(model, mesh, options);
  torch::optim::Adam optimizer(parallel.parameters(), torch::optim::AdamOptions(0.01));
  Checkpoints checkpoints(job, folder, {.resume = from > 0 ? Resume::yes : Resume::no});
  checkpoints.add("model", static_cast<const torch::nn::Module&>(model));
  checkpoints.add("optimizer", optimizer);
  checkpoints.add("parallel", parallel);
  EXPECT_EQ(checkpoints.resume(), from);
  for (const auto& each : parallel.state()) run.parameters.push_back(each.value());
  for (int step = from; step < to; ++step) {
    const Batch batch = batch_of(way, mesh, step);
    optimizer.zero_grad();
    at::Tensor output;
    {
      const Autocast scope = parallel.autocast();
      output = model.forward({batch.data.to(parallel.input_type())})[0].to(type_of(way));
    }
    const at::Tensor loss = mse(output, batch.target);
    parallel.backward(loss);
    parallel.step(optimizer);
    run.losses.push_back(parallel.mean(loss.detach()).item<double>());
  }
  if (from == 0) {
    EXPECT_TRUE(checkpoints.save(to));
  }
  EXPECT_EQ(checkpoints.finish(), 0);
  const JsonReader::Json values = parallel.replicas().state().values;
  if (values.contains("numbers")) run.scale = values.at("numbers").value("scale", 1.0);
  return run;
}

Run train_as_pipeline(Job& job, const Way& way, const std::string& folder, int from, int to) {
  Run run;
  DeviceMesh mesh(job, way.layout);
  PipelineOptions options = options_of(way.schedule, 2);
  options.training.precision = way.precision;
  options.training.zero_stage = way.zero_stage;
  options.loss = [](const at::Tensor& output, const at::Tensor& target) {
    return at::mse_loss(output.to(target.scalar_type()), target);
  };
  Pipeline pipeline(layers_of(way), mesh, options);
  Checkpoints checkpoints(job, folder, {.resume = from > 0 ? Resume::yes : Resume::no});
  checkpoints.add("pipeline", pipeline);
  EXPECT_EQ(checkpoints.resume(), from);
  for (const auto& each : pipeline.state()) run.parameters.push_back(each.value());
  const auto type = way.precision == "o2" ? at::kBFloat16 : type_of(way);
  for (int step = from; step < to; ++step) {
    const Batch batch = batch_of(way, mesh, step);
    run.losses.push_back(pipeline.step(batch.data.to(type), batch.target));
  }
  if (from == 0) {
    EXPECT_TRUE(checkpoints.save(to));
  }
  EXPECT_EQ(checkpoints.finish(), 0);
  if (const auto& scale = pipeline.made_stages().loss_scale()) run.scale = scale->scale();
  return run;
}

Run train(const Way& way, const std::string& folder, int from, int to) {
  Run run;
  std::mutex mutex;
  run_ranks(way.ranks, [&](Job& job) {
    const Run own = way.is_data_parallel ? train_plainly(job, way, folder, from, to)
                                         : train_as_pipeline(job, way, folder, from, to);
    const std::lock_guard lock(mutex);
    if (job.rank() == 0) run = own;
  });
  return run;
}

void expect_goes_on(const Way& saver, const Way& loader) {
  SCOPED_TRACE(testing::PrintToString(saver) + " -> " + testing::PrintToString(loader));
  const test::TemporaryFolder folder;
  const std::string path = folder.path().string() + "/run";
  const Run whole = train(saver, folder.path().string() + "/whole", 0, kAllSteps);
  train(saver, path, 0, kSavedSteps);
  const Run rest = train(loader, path, kSavedSteps, kAllSteps);
  const Run itself = train(saver, path, kSavedSteps, kAllSteps);
  ASSERT_EQ(rest.parameters.size(), itself.parameters.size());
  for (std::size_t i = 0; i < rest.parameters.size(); ++i)
    EXPECT_TRUE(rest.parameters[i].equal(itself.parameters[i])) << "tensor " << i;
  EXPECT_EQ(rest.scale, whole.scale);
  const double tolerance = saver.precision == "none" ? 1e-9 : 2e-2;
  for (int step = kSavedSteps; step < kAllSteps; ++step) {
    const auto after = static_cast<std::size_t>(step - kSavedSteps);
    EXPECT_EQ(itself.losses[after], whole.losses[static_cast<std::size_t>(step)]) << step;
    EXPECT_NEAR(rest.losses[after], itself.losses[after], tolerance) << step;
  }
}

const Way kPipeline{.layout = "pp=2", .ranks = 2};
const Way kPlain{.layout = "dp=2", .ranks = 2, .is_data_parallel = true};

TEST(CheckpointsOfPipelines, GoOnUnderEveryOtherLayout) {
  const std::vector<Way> others = {
      {.layout = "pp=1", .ranks = 1},
      {.layout = "pp=3", .ranks = 3, .schedule = "gpipe"},
      {.layout = "dp=2", .ranks = 2},
      {.layout = "pp=2", .ranks = 2, .schedule = "interleaved:chunks=2"},
      {.layout = "dp=2,pp=2", .ranks = 4, .zero_stage = 1},
      {.layout = "pp=1", .ranks = 1, .is_data_parallel = true},
      kPlain};
  for (const Way& other : others) expect_goes_on(kPipeline, other);
}

TEST(CheckpointsOfPipelines, TakeUpThoseOfOtherLayoutsAndOfPlainPrograms) {
  expect_goes_on({.layout = "dp=2,pp=2", .ranks = 4, .zero_stage = 1}, kPipeline);
  expect_goes_on({.layout = "pp=3", .ranks = 3}, kPipeline);
  expect_goes_on(kPlain, kPipeline);
  expect_goes_on({.layout = "pp=1", .ranks = 1, .is_data_parallel = true}, kPipeline);
}

TEST(CheckpointsOfPipelines, KeepTheMastersOf16Bits) {
  Way o2 = kPipeline;
  o2.precision = "o2";
  Way three = o2;
  three.layout = "pp=3";
  three.ranks = 3;
  expect_goes_on(o2, three);
}

// It doubles after every other step, before and after the save.
TEST(CheckpointsOfPipelines, KeepTheScaleOfFp16UnderEveryOtherLayout) {
  Way scaled = kPipeline;
  scaled.precision = "o1:dtype=fp16,scale=64,interval=2";
  Way three = scaled, plain = scaled;
  three.layout = "pp=3";
  three.ranks = 3;
  plain.layout = "pp=1";
  plain.ranks = 1;
  plain.is_data_parallel = true;
  expect_goes_on(scaled, three);
  expect_goes_on(scaled, plain);
  expect_goes_on(plain, scaled);
}

TEST(CheckpointsOfPipelines, OneWithoutAScaleIsNotTakenUpWithOne) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path().string() + "/run";
  Way bf16 = kPipeline;
  bf16.precision = "o1";
  train(bf16, path, 0, kSavedSteps);
  run_ranks(2, [&](Job& job) {
    DeviceMesh mesh(job, "pp=2");
    PipelineOptions options = options_of("1f1b", 2);
    options.training.precision = "o1:dtype=fp16";
    Pipeline pipeline(mlp(), mesh, options);
    Checkpoints checkpoints(job, path, {.resume = Resume::yes});
    checkpoints.add("pipeline", pipeline);
    EXPECT_THAT(misuse_of([&] { checkpoints.resume(); }),
                HasSubstr("without fp16 and its scale of the loss"));
  });
}

// A save computes what is in flight, so that the run which goes on and the one which is resumed
// begin with the same weights on all stages.
TEST(CheckpointsOfPipelines, OneWithoutAFlushIsDrainedByASave) {
  for (const char* schedule : {"pipedream", "pipedream:sync=vertical", "pipedream_2bw"}) {
    const test::TemporaryFolder folder;
    const std::string path = folder.path().string() + "/run";
    std::vector<std::string> digests;
    for (const bool resumes : {false, true}) {
      run_ranks(3, [&](Job& job) {
        DeviceMesh mesh(job, "pp=3");
        const int micro_batches = std::string(schedule) == "pipedream_2bw" ? 2 : 1;
        Pipeline pipeline(mlp(at::kDouble), mesh, options_of(schedule, micro_batches));
        Checkpoints checkpoints(job, path, {.resume = resumes ? Resume::yes : Resume::no});
        checkpoints.add("pipeline", pipeline);
        EXPECT_EQ(checkpoints.resume(), resumes ? 5 : 0);
        for (int step = resumes ? 5 : 0; step < 12; ++step) {
          const Batch batch = pipeline_tests::batch_of(step, 0, 8, at::kDouble);
          pipeline.step(batch.data, batch.target);
          if (step == 4) {
            EXPECT_TRUE(checkpoints.save(5));
          }
        }
        EXPECT_EQ(checkpoints.finish(), 0);
        const std::string digest = pipeline.parameters_sha256();
        if (job.rank() == 0) digests.push_back(digest);
      });
    }
    EXPECT_EQ(digests[0], digests[1]) << schedule;
  }
}

// The digest of the parameters after a step from loaded weights, and what was loaded.
struct Loaded {
  LoadedWeights report;
  std::string digest, after_a_step;
};
Loaded load_into(const Way& way, const std::string& folder, const std::string& refusal = {}) {
  Loaded loaded;
  run_ranks(way.ranks, [&](Job& job) {
    DeviceMesh mesh(job, way.layout);
    PipelineOptions options = options_of(way.schedule, 2);
    if (way.schedule == "pipedream") options.micro_batches = 1;
    options.optimizer = [](std::vector<at::Tensor> parameters) {
      return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                                 torch::optim::SGDOptions(0.01));
    };
    options.training.precision = way.precision;
    options.training.zero_stage = way.zero_stage;
    Layers layers = layers_of(way);
    if (!refusal.empty()) layers.add("more", [] { return nn::Linear(3, 3); });
    Pipeline pipeline(layers, mesh, options);
    if (!refusal.empty()) {
      const std::string before = pipeline.parameters_sha256();
      EXPECT_THAT(misuse_of([&] { load_weights(pipeline, folder); }), HasSubstr(refusal));
      EXPECT_EQ(pipeline.parameters_sha256(), before) << "nothing is written";
      EXPECT_EQ(load_weights(pipeline, folder, {.strict = false}).missing.size(), 2U);
      return;
    }
    const auto step = [&](int number) {
      const Batch batch = batch_of(way, mesh, number);
      pipeline.step(batch.data, batch.target);
    };
    step(0);  // and is in flight, without a flush
    const LoadedWeights report = load_weights(pipeline, folder);
    const std::string digest = pipeline.parameters_sha256();
    step(1);
    const std::string after = pipeline.parameters_sha256();
    if (job.rank() == 0) loaded = {report, digest, after};
  });
  return loaded;
}

TEST(LoadWeightsOfPipelines, TheWholeModelOfEveryCheckpointComesIntoTheStages) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path().string() + "/run";
  train(kPlain, path, 0, kSavedSteps);
  const Loaded one = load_into({.layout = "pp=1", .ranks = 1}, path);
  EXPECT_EQ(one.report.loaded.size(), 10U);
  EXPECT_EQ(one.report.step, static_cast<std::uint64_t>(kSavedSteps));
  EXPECT_NE(one.digest, one.after_a_step);
  for (const Way& way :
       std::vector<Way>{{.layout = "pp=3", .ranks = 3},
                        {.layout = "pp=2", .ranks = 2, .schedule = "interleaved:chunks=2"},
                        {.layout = "pp=2", .ranks = 2, .schedule = "pipedream"},
                        {.layout = "dp=2,pp=2", .ranks = 4, .zero_stage = 1}}) {
    SCOPED_TRACE(testing::PrintToString(way));
    const Loaded staged = load_into(way, path);
    EXPECT_EQ(staged.digest, one.digest);
    // Replicas and whole batches sum in another order.
    if (way.layout == "pp=3") EXPECT_EQ(staged.after_a_step, one.after_a_step);
    else EXPECT_NE(staged.after_a_step, one.digest);
    EXPECT_EQ(staged.report.loaded.size(), 10U) << "of all stages";
  }
  load_into({.layout = "pp=2", .ranks = 2}, path, "more.weight");
}

}  // namespace
}  // namespace paceline::pipeline_tests
