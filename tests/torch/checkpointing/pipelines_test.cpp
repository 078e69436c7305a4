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
  bool is_tied = false;           // the last layer has the weight of the first one
};

std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.layout << ", " << way.schedule << ", " << way.precision << ", zero_stage "
             << way.zero_stage << (way.is_data_parallel ? ", DataParallel" : "")
             << (way.is_tied ? ", tied" : "");
}

nn::Linear square_linear(at::ScalarType type) {
  nn::Linear one(nn::LinearOptions(25, 25).bias(false));
  one->to(type);
  return one;
}

Layers layers_of(const Way& way) {
  const auto type = way.precision == "none" ? at::kDouble : at::kFloat;
  if (!way.is_tied) return mlp(type);
  Layers layers(9);
  layers.add("flatten", [] { return nn::Flatten(); });
  for (const char* name : {"first", "middle", "out"})
    layers.add(name, [type] { return square_linear(type); });
  return layers.tie("first.weight", "out.weight");
}

// The tied layers in a program that knows none: a tensor that is used twice.
struct TiedOnce : nn::Module {
  explicit TiedOnce(at::ScalarType type)
      : first(register_module("first", square_linear(type))),
        middle(register_module("middle", square_linear(type))) {
    const torch::NoGradGuard no_grad;
    first->weight.copy_(at::linspace(-0.2, 0.3, 625).view({25, 25}));
    middle->weight.copy_(at::linspace(0.2, -0.1, 625).view({25, 25}));
  }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& x) {
    return {at::linear(middle->forward(first->forward(x.at(0).flatten(1))), first->weight)};
  }
  nn::Linear first, middle;
};

at::ScalarType type_of(const Way& way) {
  return way.precision == "none" ? at::kDouble : at::kFloat;
}

struct Run {
  std::vector<double> losses;
  torch::OrderedDict<std::string, at::Tensor> parameters;  // of the model, when training began
  double scale = 1;                                        // of the loss, with fp16, when it ended
};

Batch batch_of(const Way& way, DeviceMesh& mesh, int step) {
  const Batch whole = pipeline_tests::batch_of(step, 0, 16, type_of(way));
  const at::Tensor rows = at::arange(mesh.rank("dp"), 16, mesh.size("dp"));
  return {whole.data.index_select(0, rows), whole.target.index_select(0, rows)};
}

// The tied model has more outputs than targets.
at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target) {
  return mse(output.narrow(1, 0, 3).to(target.scalar_type()), target);
}

// This is a program that knows no pipelines.
template <typename Model>
Run train_plainly(Job& job, Model& model, const Way& way, const std::string& folder, int from,
                  int to) {
  Run run;
  DeviceMesh mesh(job, way.layout);
  DataParallelOptions options{.precision = way.precision};
  options.zero_stage = way.zero_stage;
  DataParallel parallel(model, mesh, options);
  torch::optim::Adam optimizer(parallel.parameters(), torch::optim::AdamOptions(0.01));
  Checkpoints checkpoints(job, folder, {.resume = from > 0 ? Resume::yes : Resume::no});
  checkpoints.add("model", static_cast<const torch::nn::Module&>(model));
  checkpoints.add("optimizer", optimizer);
  checkpoints.add("parallel", parallel);
  EXPECT_EQ(checkpoints.resume(), from);
  run.parameters = parallel.state();
  for (int step = from; step < to; ++step) {
    const Batch batch = batch_of(way, mesh, step);
    optimizer.zero_grad();
    at::Tensor output;
    {
      const Autocast scope = parallel.autocast();
      output = model.forward({batch.data.to(parallel.input_type())})[0].to(type_of(way));
    }
    const at::Tensor loss = loss_of(output, batch.target);
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
  options.loss = loss_of;
  Pipeline pipeline(layers_of(way), mesh, options);
  Checkpoints checkpoints(job, folder, {.resume = from > 0 ? Resume::yes : Resume::no});
  checkpoints.add("pipeline", pipeline);
  EXPECT_EQ(checkpoints.resume(), from);
  run.parameters = pipeline.state();
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

Run train_plainly(Job& job, const Way& way, const std::string& folder, int from, int to) {
  if (way.is_tied) {
    TiedOnce model(type_of(way));
    return train_plainly(job, model, way, folder, from, to);
  }
  const Layers layers = layers_of(way);
  pipeline::StageModule model(layers, 0, layers.size() - 1);
  return train_plainly(job, model, way, folder, from, to);
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
  // A pipeline tells the copies of tied parameters, too.
  const auto name_of = [](const std::string& name) {
    return name == "out.weight" ? std::string("first.weight") : name;
  };
  for (const auto& each : rest.parameters)
    EXPECT_TRUE(each.value().equal(itself.parameters[name_of(each.key())])) << each.key();
  for (const auto& each : itself.parameters)
    EXPECT_TRUE(rest.parameters.contains(name_of(each.key()))) << each.key();
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

// A copy is not saved: the model of a plain program has one tensor.
TEST(CheckpointsOfPipelines, HoldTiedParametersOnceAsPlainProgramsDo) {
  const auto tied = [](Way way) {
    way.is_tied = true;
    return way;
  };
  const Way pipeline = tied(kPipeline), plain = tied(kPlain),
            zero = tied({.layout = "dp=2,pp=2", .ranks = 4, .zero_stage = 1});
  expect_goes_on(plain, pipeline);
  expect_goes_on(pipeline, plain);
  expect_goes_on(plain, zero);
  expect_goes_on(zero, plain);
  expect_goes_on(pipeline, tied({.layout = "pp=1", .ranks = 1}));
  Way o2 = pipeline, wide = zero;
  o2.precision = wide.precision = "o2";
  wide.zero_stage = 0;
  expect_goes_on(o2, wide);
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
    options.loss = loss_of;
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

TEST(LoadWeightsOfPipelines, TiedParametersTakeTheOneTensorOfAPlainProgram) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path().string() + "/run";
  const Way plain = {.layout = "dp=2", .ranks = 2, .is_data_parallel = true, .is_tied = true};
  train(plain, path, 0, kSavedSteps);
  const Loaded one = load_into({.layout = "pp=1", .ranks = 1, .is_tied = true}, path);
  const Loaded two = load_into({.layout = "pp=2", .ranks = 2, .is_tied = true}, path);
  EXPECT_EQ(one.report.loaded.size(), 3U);
  EXPECT_EQ(two.report.loaded.size(), 3U);
  EXPECT_EQ(two.digest, one.digest);
  EXPECT_EQ(two.after_a_step, one.after_a_step);
}

}  // namespace
}  // namespace paceline::pipeline_tests
