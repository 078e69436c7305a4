// A pipeline has the bits of one process that accumulates over the same micro-batches.
#include "paceline/torch/pipeline/pipeline_training.h"

#include "paceline/core/pipeline/pipeline.h"
#include "paceline/torch/pipeline/stage_module.h"
#include "tests/support/nightly.h"
#include "tests/torch/pipeline/small_pipelines.h"

namespace paceline {
namespace {

using namespace pipeline_tests;

const std::vector<std::string> kSchedules = {"sequential", "gpipe", "1f1b", "zero_bubble",
                                             "interleaved:chunks=2"};

bool goes(const std::string& schedule, int ranks, int micro_batches) {
  return !schedule.starts_with("interleaved") || micro_batches % ranks == 0;
}

void expect_same(const End& got, const End& expected) {
  EXPECT_EQ(got.digest, expected.digest);
  EXPECT_EQ(got.losses, expected.losses);
  ASSERT_EQ(got.state.keys(), expected.state.keys());
  for (const auto& each : got.state)
    EXPECT_TRUE(each.value().equal(expected.state[each.key()])) << each.key();
}

// The day sees each schedule with each number of ranks, and of micro-batches; the night sees all.
TEST(Pipeline, HasTheBitsOfOneProcessWithTheSameMicroBatches) {
  int turn = 0;
  for (const bool is_cnn : {false, true}) {
    const auto layers = [=] { return is_cnn ? cnn() : mlp(); };
    for (const int micro_batches : {1, 2, 4, 8}) {
      const End one = train({.layers = layers, .options = options_of("gpipe", micro_batches)});
      for (const int ranks : {2, 3}) {
        for (const std::string& schedule : kSchedules) {
          const bool fits = goes(schedule, ranks, micro_batches) &&
                            (ranks < 3 || !is_cnn || !schedule.starts_with("interleaved"));
          if (!fits || (!test::is_nightly() && ++turn % 3 != 0)) continue;
          SCOPED_TRACE(c10::str(schedule, ", ", ranks, " ranks, ", micro_batches,
                                " micro-batches, ", is_cnn ? "cnn" : "mlp"));
          expect_same(train({.layers = layers,
                             .layout = "pp=" + std::to_string(ranks),
                             .ranks = ranks,
                             .options = options_of(schedule, micro_batches),
                             .world = {.share_memory = turn % 2 == 0}}),
                      one);
        }
      }
    }
  }
}

TEST(Pipeline, RecomputedActivationsChangeNoBit) {
  for (const bool is_cnn : {false, true}) {
    const auto layers = [=] { return is_cnn ? cnn() : mlp(); };
    const End one = train({.layers = layers, .options = options_of("gpipe", 4)});
    for (const char* recompute : {"full", "every:2", "every:100"}) {
      for (const int ranks : {1, 2}) {
        SCOPED_TRACE(c10::str(recompute, ", ", ranks, " ranks, ", is_cnn ? "cnn" : "mlp"));
        Course course{.layers = layers,
                      .layout = "pp=" + std::to_string(ranks),
                      .ranks = ranks,
                      .options = options_of(ranks == 1 ? "gpipe" : "1f1b", 4)};
        course.options.recompute = recompute;
        expect_same(train(course), one);
      }
    }
  }
}

TEST(Pipeline, UnevenMicroBatchesHaveTheGradientOfTheWholeBatch) {
  const auto layers = [] { return mlp(at::kDouble); };
  const auto course = [&](int micro_batches) {
    Course course{
        .layers = layers, .type = at::kDouble, .options = options_of("1f1b", micro_batches)};
    course.samples = 23;
    course.options.optimizer = [](std::vector<at::Tensor> parameters) {
      return std::make_unique<torch::optim::SGD>(std::move(parameters), 0.1);
    };
    return course;
  };
  const End whole = train(course(1));
  for (const int micro_batches : {2, 3, 4, 7, 8}) {
    Course cut = course(micro_batches);
    cut.layout = "pp=2";
    cut.ranks = 2;
    const End end = train(cut);
    for (const auto& each : whole.state)
      EXPECT_LE((each.value() - end.state[each.key()]).abs().max().item<double>(), 1e-12);
    for (std::size_t i = 0; i < whole.losses.size(); ++i)
      EXPECT_NEAR(end.losses[i], whole.losses[i], 1e-12);
  }
}

TEST(Pipeline, LiveActivationsAreThoseOfTheOrder) {
  for (const std::string& schedule : kSchedules) {
    const End end = train({.layout = "pp=2", .ranks = 2, .options = options_of(schedule, 4)});
    const auto order = pipeline::make_order(pipeline::parse_schedule(schedule).value(), 2, 4);
    EXPECT_EQ(end.live, pipeline::peak_live(order.value())) << schedule;
  }
}

TEST(Pipeline, ReplicasAndStagesTogetherHaveTheGradientOfTheGlobalBatch) {
  const auto layers = [] { return mlp(at::kDouble); };
  Course one{.layers = layers, .type = at::kDouble, .options = options_of("1f1b", 2)};
  const End expected = train(one);
  for (const int stage : {0, 1}) {
    for (const char* schedule : {"1f1b", "gpipe", "interleaved:chunks=2", "zero_bubble"}) {
      Course both = one;
      both.layout = "dp=2,pp=2";
      both.ranks = 4;
      both.options = options_of(schedule, 2);
      both.options.training.zero_stage = stage;
      const End end = train(both);
      for (const auto& each : expected.state)
        EXPECT_LE((each.value() - end.state[each.key()]).abs().max().item<double>(), 1e-10)
            << schedule << ", zero_stage " << stage;
    }
  }
}

TEST(Pipeline, ClipsByTheNormOfTheWholeModel) {
  const auto layers = [] { return mlp(at::kDouble); };
  Course one{.layers = layers, .type = at::kDouble, .options = options_of("1f1b", 2)};
  one.options.training.max_grad_norm = 0.05;
  const End expected = train(one);
  for (const char* schedule : {"1f1b", "zero_bubble"}) {
    Course cut = one;
    cut.layout = "pp=3";
    cut.ranks = 3;
    cut.options.schedule = schedule;
    const End end = train(cut);
    for (const auto& each : expected.state)
      EXPECT_LE((each.value() - end.state[each.key()]).abs().max().item<double>(), 1e-12)
          << schedule;
  }
  Course unclipped = one;
  unclipped.options.training.max_grad_norm = 0;
  EXPECT_NE(train(unclipped).digest, expected.digest);
}

// A tensor that skips stages travels through them.
struct SplitImpl : nn::Module {
  Tensors forward(const Tensors& in) { return {in[0], in[0]}; }
};
TORCH_MODULE(Split);
struct OnFirstImpl : nn::Module {
  OnFirstImpl() { linear = register_module("linear", nn::Linear(25, 25)); }
  Tensors forward(const Tensors& in) { return {at::tanh(linear(in[0])), in[1]}; }
  nn::Linear linear{nullptr};
};
TORCH_MODULE(OnFirst);
struct JoinImpl : nn::Module {
  at::Tensor forward(const Tensors& in) { return in[0] + in[1]; }
};
TORCH_MODULE(Join);

TEST(Pipeline, ATensorMaySkipStages) {
  const auto layers = [] {
    Layers all(3);
    all.add("flatten", [] { return nn::Flatten(); }).add("in", [] { return nn::Linear(25, 25); });
    all.add("split", [] { return Split(); });
    for (int i = 0; i < 3; ++i) all.add("block" + std::to_string(i), [] { return OnFirst(); });
    all.add("join", [] { return Join(); }).add("head", [] { return nn::Linear(25, 3); });
    return all;
  };
  const End one = train({.layers = layers, .options = options_of("1f1b", 4)});
  Course cut{.layers = layers, .layout = "pp=3", .ranks = 3, .options = options_of("1f1b", 4)};
  cut.options.partition = "0-3,4-4,5-7";
  expect_same(train(cut), one);
}

// A model of one process whose first and last layer share a weight, against the copies of a
// pipeline.
TEST(Pipeline, TiedParametersHaveTheGradientOfOneParameter) {
  const auto layers = [](bool tied) {
    Layers all(9);
    const auto linear = [](int in, int out) {
      return [=] {
        nn::Linear one(nn::LinearOptions(in, out).bias(false));
        one->to(at::kDouble);
        return one;
      };
    };
    all.add("flatten", [] { return nn::Flatten(); }).add("in", linear(25, 25));
    all.add("tanh", [] { return nn::Tanh(); }).add("middle", linear(25, 25));
    all.add("tanh2", [] { return nn::Tanh(); }).add("out", linear(25, 25));
    if (tied) all.tie("in.weight", "out.weight");
    return all;
  };
  const auto loss = [](const at::Tensor& y, const at::Tensor& t) {
    return at::mse_loss(y.narrow(1, 0, 3), t);
  };
  const Layers untied = layers(false);
  pipeline::StageModule one(untied, 0, untied.size() - 1);
  auto parameters = one.named_parameters();
  at::Tensor weight = parameters["in.weight"], middle = parameters["middle.weight"];
  torch::optim::Adam optimizer({weight, middle}, torch::optim::AdamOptions(0.01));
  for (int step = 0; step < 5; ++step) {
    const Batch batch = batch_of(step, 0, 12, at::kDouble);
    optimizer.zero_grad();
    const at::Tensor x = at::tanh(at::linear(batch.data.flatten(1), weight));
    loss(at::linear(at::tanh(at::linear(x, middle)), weight), batch.target).backward();
    nn::utils::clip_grad_norm_({weight, middle}, 0.5);
    optimizer.step();
  }
  struct Case {
    std::string layout;
    int ranks, zero_stage;
  };
  for (const auto& [layout, ranks, zero_stage] :
       {Case{"pp=1", 1, 0}, Case{"pp=2", 2, 0}, Case{"pp=3", 3, 0}, Case{"dp=2,pp=2", 4, 0},
        Case{"dp=2", 2, 1}, Case{"dp=2,pp=2", 4, 1}, Case{"dp=3,pp=2", 6, 1},
        Case{"dp=2,pp=2", 4, 2}, Case{"dp=2,pp=2", 4, 3}}) {
    SCOPED_TRACE(layout + ", zero_stage " + std::to_string(zero_stage));
    Course course{.layers = [&] { return layers(true); },
                  .type = at::kDouble,
                  .layout = layout,
                  .ranks = ranks,
                  .options = options_of("1f1b", 4)};
    course.samples = 12;
    course.options.loss = loss;
    course.options.training.max_grad_norm = 0.5;
    course.options.training.zero_stage = zero_stage;
    const End end = train(course);
    EXPECT_TRUE(end.state["in.weight"].equal(end.state["out.weight"]));
    EXPECT_LE((end.state["in.weight"] - weight).abs().max().item<double>(), 1e-12);
    EXPECT_LE((end.state["middle.weight"] - middle).abs().max().item<double>(), 1e-12);
  }
  run_ranks(2, [&](Job& job) {
    DeviceMesh mesh(job, "pp=2");
    Layers wrong = layers(false);
    wrong.tie("in.weight", "nobody.weight");
    EXPECT_THAT(misuse_of([&] { Pipeline pipeline(wrong, mesh, options_of("1f1b", 4)); }),
                HasSubstr("'nobody.weight'"));
  });
}

TEST(Pipeline, AStageMayHaveNothingToTrain) {
  Course cut{.layout = "pp=3", .ranks = 3, .options = options_of("1f1b", 4)};
  const End one = train({.options = options_of("1f1b", 4)});
  cut.options.partition = "0,1-1,2-7";
  expect_same(train(cut), one);
}

TEST(Pipeline, BatchesOfOtherSizesAreCutAnew) {
  const auto run = [](int ranks) {
    std::vector<double> losses;
    run_ranks(ranks, [&](Job& job) {
      DeviceMesh mesh(job, "pp=" + std::to_string(ranks));
      Pipeline pipeline(mlp(), mesh, options_of("1f1b", 4));
      std::vector<double> own;
      for (const int samples : {16, 11, 4, 16}) {
        const Batch batch = batch_of(samples, 0, samples, at::kFloat);
        own.push_back(pipeline.step(batch.data, batch.target));
      }
      if (job.rank() == 0) losses = own;
    });
    return losses;
  };
  EXPECT_EQ(run(3), run(1));
}

TEST(Pipeline, EvaluatesWithTheResultOnEveryRank) {
  const Batch batch = batch_of(0, 0, 6, at::kFloat);
  at::Tensor expected;
  for (const int ranks : {1, 2, 3}) {
    run_ranks(ranks, [&](Job& job) {
      at::set_num_threads(1);
      DeviceMesh mesh(job, "pp=" + std::to_string(ranks));
      const std::string schedule = ranks == 2 ? "interleaved:chunks=2" : "1f1b";
      Pipeline pipeline(cnn(), mesh, options_of(schedule, 2));
      pipeline.step(batch.data, batch.target);
      pipeline.eval();
      const at::Tensor output = pipeline.forward(mesh.rank("pp") == 0 ? batch.data : at::Tensor());
      EXPECT_FALSE(output.requires_grad());
      if (ranks == 1) expected = output;
      else EXPECT_TRUE(output.equal(expected));
      pipeline.train();
      pipeline.step(batch.data, batch.target);
    });
  }
}

TEST(Pipeline, RefusesByNameWhatDoesNotGo) {
  const auto refusal = [](const std::function<void(PipelineOptions&)>& change,
                          const std::string& layout = "pp=2") {
    std::string text;
    std::mutex mutex;
    run_ranks(2, [&](Job& job) {
      DeviceMesh mesh(job, layout);
      PipelineOptions options = options_of("1f1b", 2);
      change(options);
      const std::string told = misuse_of([&] { Pipeline pipeline(mlp(), mesh, options); });
      const std::lock_guard lock(mutex);
      text = told;
    });
    return text;
  };
  EXPECT_THAT(refusal([](auto& o) { o.loss = {}; }), HasSubstr("PipelineOptions::loss is missing"));
  EXPECT_THAT(refusal([](auto& o) { o.optimizer = {}; }),
              HasSubstr("either PipelineOptions::optimizer"));
  EXPECT_THAT(refusal([](auto& o) { o.schedule = "interleaved:chunks=5"; }),
              AllOf(HasSubstr("10"), HasSubstr("8")));
  EXPECT_THAT(refusal([](auto& o) {
                o.schedule = "interleaved:chunks=2";
                o.micro_batches = 3;
              }),
              AllOf(HasSubstr("3"), HasSubstr("2")));
  EXPECT_THAT(refusal([](auto& o) { o.schedule = "gpip"; }), HasSubstr("gpipe"));
  EXPECT_THAT(refusal([](auto& o) { o.partition = "0-3,5-7"; }), HasSubstr("0-3,5-7"));
  EXPECT_THAT(refusal([](auto& o) { o.partition = "0-4,4-7"; }), HasSubstr("0-4,4-7"));
  EXPECT_THAT(refusal([](auto& o) { o.partition = "0-7"; }), HasSubstr("name so many"));
  EXPECT_THAT(refusal([](auto& o) { o.training.synchrony = "local_sgd"; }),
              HasSubstr("synchronous"));
  EXPECT_THAT(refusal([](auto& o) { o.training.non_finite = "no"; }), HasSubstr("non_finite"));
  EXPECT_THAT(refusal([](auto& o) {
                o.training.precision = "o1:dtype=fp16";
                o.training.compression = "fp16";
              }),
              HasSubstr("may swallow"));
  EXPECT_THAT(refusal([](auto& o) {
                o.tensor_plan = {{"nobody", ParallelStyle::column}};
              }),
              HasSubstr("'nobody'"));
  EXPECT_THAT(refusal([](auto& o) { o.recompute = "every:x"; }), HasSubstr("every:K"));
  EXPECT_THAT(refusal([](auto& o) { o.recompute = "auto"; }), HasSubstr("PipelineOptions::sample"));
  EXPECT_THAT(refusal([](auto& o) { o.micro_batches = 0; }), HasSubstr("micro_batches is 0"));
}

TEST(Pipeline, ABatchOfTooFewSamplesIsRefusedOnAllStages) {
  run_ranks(2, [](Job& job) {
    DeviceMesh mesh(job, "pp=2");
    Pipeline pipeline(mlp(), mesh, options_of("1f1b", 4));
    const Batch batch = batch_of(0, 0, 3, at::kFloat);
    EXPECT_THAT(misuse_of([&] { pipeline.step(batch.data, batch.target); }),
                AllOf(HasSubstr("3 samples"), HasSubstr("4 micro-batches")));
  });
}

// Rank 0 leaves between two steps, while rank 1 waits for the next batch.
TEST(Pipeline, AStageThatLeavesBetweenStepsIsToldWithThePlaceOfTheOneThatWaits) {
  for (const char* schedule : {"1f1b", "pipedream"}) {
    const bool is_flushed = std::string(schedule) == "1f1b";
    std::string told;
    run_ranks(2, [&](Job& job) {
      DeviceMesh mesh(job, "pp=2");
      Pipeline pipeline(mlp(), mesh, options_of(schedule, is_flushed ? 2 : 1));
      const Batch batch = batch_of(0, 0, 4, at::kFloat);
      pipeline.step(batch.data, batch.target);
      pipeline.finish();
      if (job.rank() == 0) return;
      try {
        pipeline.step(batch.data, batch.target);
      } catch (const Error& error) {
        told = error.what();
      }
    });
    EXPECT_THAT(told, AllOf(HasSubstr("pipeline: rank 1 waited before micro-batch 0 of stage 1 in "
                                      "step 2: "),
                            HasSubstr("rank 0")))
        << schedule;
  }
}

}  // namespace
}  // namespace paceline
