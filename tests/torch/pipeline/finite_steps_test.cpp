// Steps with a gradient that is not finite, on whichever stage (covers finite_steps.h).
#include <limits>
#include <set>

#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/pipeline/stage_module.h"
#include "tests/torch/pipeline/small_pipelines.h"

namespace paceline {
namespace {

using namespace pipeline_tests;

// Its output is its input; the gradient of its parameter, and no other one, is infinite.
struct OverflowingImpl : nn::Module {
  OverflowingImpl() { scale = register_parameter("scale", at::zeros({1}, at::kDouble)); }
  at::Tensor forward(const at::Tensor& x) { return x + scale * 1e300 * 1e300; }
  at::Tensor scale;
};
TORCH_MODULE(Overflowing);

Layers with_overflow() {
  Layers layers = mlp(at::kDouble);
  layers.add("overflow", [] { return Overflowing(); });
  return layers;
}

struct Ending {
  std::string digest, text;
  std::int64_t skipped = 0;
};

// The ranks end alike. In the steps `bad` the data hold a NaN; the steps `missing` do not exist.
Ending train_with(const std::string& layout, int ranks, const std::function<Layers()>& layers,
                  const PipelineOptions& options, const std::set<int>& bad,
                  const std::set<int>& missing = {}) {
  std::vector<Ending> endings(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Job& job) {
    DeviceMesh mesh(job, layout);
    Pipeline pipeline(layers(), mesh, options);
    Ending& ending = endings[static_cast<std::size_t>(job.rank())];
    try {
      for (int step = 0; step < 8; ++step) {
        if (missing.contains(step)) continue;
        Batch batch = batch_of(step, mesh.rank("dp"), 6, at::kDouble);
        if (bad.contains(step) && mesh.rank("dp") == 0)
          batch.data[0] = std::numeric_limits<double>::quiet_NaN();
        pipeline.step(batch.data, batch.target);
      }
    } catch (const Error& error) {
      ending.text = error.what();
    }
    ending.digest = pipeline.parameters_sha256();
    ending.skipped = pipeline.last_step().skipped;
  });
  for (const Ending& each : endings) {
    EXPECT_EQ(each.digest, endings[0].digest);
    EXPECT_EQ(each.text, endings[0].text);
    EXPECT_EQ(each.skipped, endings[0].skipped);
  }
  return endings[0];
}

PipelineOptions skipping(double max_grad_norm = 0) {
  PipelineOptions options = options_of("1f1b", 2);
  options.training.non_finite = "skip";
  options.training.max_grad_norm = max_grad_norm;
  return options;
}

TEST(FiniteSteps, ATrainingGoesOnAsIfTheBatchHadNotBeenThere) {
  const auto layers = [] { return mlp(at::kDouble); };
  for (const auto& [layout, ranks] :
       {std::pair{"pp=1", 1}, std::pair{"pp=3", 3}, std::pair{"dp=2,pp=2", 4}}) {
    for (const double norm : {0.0, 0.05}) {
      for (const int zero_stage : {0, 1}) {
        SCOPED_TRACE(c10::str(layout, ", norm ", norm, ", zero_stage ", zero_stage));
        PipelineOptions options = skipping(norm);
        options.training.zero_stage = zero_stage;
        const Ending left_out = train_with(layout, ranks, layers, options, {2, 3, 6});
        EXPECT_EQ(left_out.text, "");
        EXPECT_EQ(left_out.skipped, 3);
        EXPECT_EQ(left_out.digest,
                  train_with(layout, ranks, layers, options, {}, {2, 3, 6}).digest);
      }
    }
  }
}

TEST(FiniteSteps, AGradientOfOneStageStopsTheStepOfAll) {
  const Ending before =
      train_with("pp=3", 3, with_overflow, skipping(), {}, {0, 1, 2, 3, 4, 5, 6, 7});
  const Ending all = train_with("pp=3", 3, with_overflow, skipping(), {});
  EXPECT_EQ(all.skipped, 8);
  EXPECT_EQ(all.digest, before.digest);
}

TEST(FiniteSteps, AllRanksEndByTheNameOfTheParameterAndItsStage) {
  PipelineOptions options = skipping();
  options.training.non_finite = "throw";
  EXPECT_THAT(
      train_with("pp=3", 3, with_overflow, options, {}).text,
      AllOf(HasSubstr("step 1: the mean gradient of 'overflow.scale' of stage 2 on rank 2 is "
                      "not finite"),
            HasSubstr("left out on all stages")));
  options.training.non_finite = "skip";
  options.training.non_finite_limit = 3;
  const Ending limited = train_with("pp=3", 3, with_overflow, options, {});
  EXPECT_EQ(limited.skipped, 2);  // of the step before the one that threw
  EXPECT_THAT(limited.text, AllOf(HasSubstr("step 3: "), HasSubstr("3 steps in a row")));
}

// Each parameter has an optimizer of its own, which steps by what is left of its gradient.
TEST(FiniteSteps, OptimizersOfParametersClipAndSkipAsOneOfAllDoes) {
  const auto layers = [] { return mlp(at::kDouble); };
  PipelineOptions options = skipping(0.05);
  const Ending expected = train_with("pp=2", 2, layers, options, {2});
  options.training.optimizer = [](at::Tensor one) {
    return std::make_unique<torch::optim::Adam>(Tensors{std::move(one)},
                                                torch::optim::AdamOptions(0.01));
  };
  options.optimizer = {};
  EXPECT_EQ(train_with("pp=2", 2, layers, options, {2}).digest, expected.digest);
}

// --- fp16 and its scale ---

struct ScaledWay {
  std::string layout = "pp=1", schedule = "1f1b", precision;
  int ranks = 1;
  int micro_batches = 2;
  double max_grad_norm = 0;
};

struct ScaledEnd {
  std::string digest;
  std::vector<double> losses;
  std::int64_t skipped = 0;
  bool operator==(const ScaledEnd&) const = default;
};

at::Tensor float32_mse(const at::Tensor& output, const at::Tensor& target) {
  return at::mse_loss(output.to(at::kFloat), target);
}

at::ScalarType input_of(const std::string& precision) {
  if (!precision.starts_with("o2")) return at::kFloat;
  return precision.find("fp16") == std::string::npos ? at::kBFloat16 : at::kHalf;
}

ScaledEnd train_scaled(const ScaledWay& way) {
  ScaledEnd end;
  run_ranks(way.ranks, [&](Job& job) {
    DeviceMesh mesh(job, way.layout);
    PipelineOptions options = options_of(way.schedule, way.micro_batches);
    options.training.precision = way.precision;
    options.training.max_grad_norm = way.max_grad_norm;
    options.loss = float32_mse;
    Pipeline pipeline(mlp(), mesh, options);
    ScaledEnd own;
    for (int step = 0; step < 8; ++step) {
      const Batch batch = batch_of(step, 0, 16, at::kFloat);
      own.losses.push_back(pipeline.step(batch.data.to(input_of(way.precision)), batch.target));
    }
    own.digest = pipeline.parameters_sha256();
    own.skipped = pipeline.last_step().skipped;
    if (job.rank() == 0) end = own;
  });
  return end;
}

// A program that knows no pipelines.
ScaledEnd train_plainly(const std::string& precision, double max_grad_norm = 0) {
  ScaledEnd end;
  run_ranks(1, [&](Job& job) {
    const Layers layers = mlp();
    pipeline::StageModule model(layers, 0, layers.size() - 1);
    DataParallel parallel(model, job, {.precision = precision, .max_grad_norm = max_grad_norm});
    torch::optim::Adam optimizer(parallel.parameters(), torch::optim::AdamOptions(0.01));
    for (int step = 0; step < 8; ++step) {
      const Batch batch = batch_of(step, 0, 16, at::kFloat);
      at::Tensor output;
      {
        const Autocast scope = parallel.autocast();
        output = model.forward({batch.data.to(input_of(precision))})[0];
      }
      const at::Tensor loss = float32_mse(output, batch.target);
      optimizer.zero_grad();
      parallel.backward(loss);
      parallel.step(optimizer);
      end.losses.push_back(loss.item<double>());
    }
    std::vector<at::Tensor> parameters;
    for (const auto& each : parallel.state()) parameters.push_back(each.value());
    end.digest = sha256_of(parameters);
    end.skipped = parallel.last_step().skipped;
  });
  return end;
}

// The scale begins so high that the first steps overflow, and doubles until others do.
constexpr const char* kHighScale = ":dtype=fp16,scale=16777216,interval=2";

TEST(FiniteStepsInFp16, AllStagesSkipTogetherAndHaveTheBitsOfOneProcess) {
  for (const std::string mode : {"o1", "o2"}) {
    const std::string precision = mode + kHighScale;
    const ScaledEnd one = train_scaled({.precision = precision});
    EXPECT_GT(one.skipped, 0);
    EXPECT_LT(one.skipped, 8);
    for (const ScaledWay& way : std::vector<ScaledWay>{
             {.layout = "pp=2", .precision = precision, .ranks = 2},
             {.layout = "pp=3", .schedule = "gpipe", .precision = precision, .ranks = 3},
             {.layout = "pp=2",
             .schedule = "interleaved:chunks=2",
             .precision = precision,
             .ranks = 2}}) {
      SCOPED_TRACE(c10::str(way.layout, ", ", way.schedule, ", ", precision));
      EXPECT_EQ(train_scaled(way), one);
    }
  }
}

TEST(FiniteStepsInFp16, APipelineHasTheBitsOfAPlainProgram) {
  for (const std::string mode : {"o1", "o2"}) {
    const std::string precision = mode + kHighScale;
    EXPECT_EQ(
        train_scaled({.layout = "pp=2", .precision = precision, .ranks = 2, .micro_batches = 1}),
        train_plainly(precision))
        << precision;
  }
}

// The norm of all stages is added up in another order than that of a whole model.
TEST(FiniteStepsInFp16, StagesClipAsAPlainProgramDoes) {
  for (const std::string precision : {"o1", "o2", "o1:dtype=fp16,scale=16777216,interval=2",
                                      "o2:dtype=fp16,scale=16777216,interval=2"}) {
    SCOPED_TRACE(precision);
    constexpr double kNorm = 0.05;
    const ScaledEnd plain = train_plainly(precision, kNorm);
    const ScaledEnd staged = train_scaled({.layout = "pp=2",
                                           .precision = precision,
                                           .ranks = 2,
                                           .micro_batches = 1,
                                           .max_grad_norm = kNorm});
    EXPECT_EQ(staged.skipped, plain.skipped);
    ASSERT_EQ(staged.losses.size(), plain.losses.size());
    for (std::size_t i = 0; i < plain.losses.size(); ++i)
      EXPECT_NEAR(staged.losses[i], plain.losses[i], 1e-3) << "step " << i;
  }
}

// The scale is to blame for an overflow, and not the batch, as long as it can fall.
TEST(FiniteStepsInFp16, AnOverflowOfTheScaleIsNoErrorButABadBatchIs) {
  PipelineOptions options = options_of("1f1b", 2);
  options.training.precision = c10::str("o1", kHighScale);
  options.training.non_finite = "throw";
  const auto layers = [] { return mlp(); };
  const auto text_with = [&](const std::set<int>& bad) {
    std::string text;
    run_ranks(2, [&](Job& job) {
      DeviceMesh mesh(job, "pp=2");
      Pipeline pipeline(layers(), mesh, options);
      try {
        for (int step = 0; step < 8; ++step) {
          Batch batch = batch_of(step, 0, 6, at::kFloat);
          if (bad.contains(step)) batch.data[0] = std::numeric_limits<float>::quiet_NaN();
          pipeline.step(batch.data, batch.target);
        }
      } catch (const Error& error) {
        if (job.rank() == 0) text = error.what();
      }
    });
    return text;
  };
  EXPECT_EQ(text_with({}), "");
  EXPECT_THAT(text_with({5}), AllOf(HasSubstr("step 6"), HasSubstr("left out on all stages")));
}

}  // namespace
}  // namespace paceline
