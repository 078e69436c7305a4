// Pipelines without a flush equal their recurrences, in which each step's gradient is that of older
// weights.
#include <cmath>
#include <numbers>

#include "paceline/core/pipeline/pipeline.h"
#include "paceline/torch/norm/norm.h"
#include "paceline/torch/pipeline/stage_module.h"
#include "tests/torch/pipeline/small_pipelines.h"

namespace paceline {
namespace {

using namespace pipeline_tests;
using pipeline::StageModule;
using Weights = std::vector<std::vector<at::Tensor>>;  // by stage

// Ranks are many on few processors, and their layers small.
void run_alone(int ranks, const std::function<void(Job&)>& run) {
  const int before = at::get_num_threads();
  run_ranks(ranks, [&](Job& job) {
    at::set_num_threads(1);
    run(job);
  });
  at::set_num_threads(before);
}

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(Tensors parameters)>;

MakeOptimizer momentum(double rate) {
  return [rate](Tensors parameters) {
    return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                               torch::optim::SGDOptions(rate).momentum(0.5));
  };
}
MakeOptimizer plain(double rate) {
  return [rate](Tensors parameters) {
    return std::make_unique<torch::optim::SGD>(std::move(parameters), rate);
  };
}
MakeOptimizer adam() {
  return options_of("1f1b", 1).optimizer;
}

// A training in one process by w(t + 1) = step(w(t), the gradient at version `of(t, s)` of stage
// s), which knows nothing of micro-batches in flight.
struct Recurrence {
  std::function<Layers()> layers;
  std::vector<int> first_layers;
  std::function<int(int batch, int stage)> version_of;
  MakeOptimizer optimizer;
  int micro_batches = 1;
};

struct Told {
  Weights end;
  std::vector<double> losses;
};

Weights values_of(const std::vector<std::shared_ptr<StageModule>>& stages) {
  Weights values;
  for (const auto& stage : stages) {
    values.emplace_back();
    for (const at::Tensor& one : stage->parameters()) values.back().push_back(one.detach().clone());
  }
  return values;
}

void set_values(StageModule& stage, const std::vector<at::Tensor>& values) {
  const at::NoGradGuard no_grad;
  const auto parameters = stage.parameters();
  for (std::size_t i = 0; i < values.size(); ++i) parameters[i].copy_(values[i]);
}

Told run(const Recurrence& recurrence, const std::vector<Batch>& batches) {
  const Layers layers = recurrence.layers();
  std::vector<std::shared_ptr<StageModule>> stages;
  for (std::size_t s = 0; s < recurrence.first_layers.size(); ++s) {
    const bool is_last = s + 1 == recurrence.first_layers.size();
    const int last = is_last ? layers.size() - 1 : recurrence.first_layers[s + 1] - 1;
    stages.push_back(std::make_shared<StageModule>(layers, recurrence.first_layers[s], last));
  }
  // The newest weights, which the optimizers step.
  Weights leaves = values_of(stages);
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
  for (auto& stage : leaves) {
    for (at::Tensor& one : stage) one.set_requires_grad(true);
    optimizers.push_back(stage.empty() ? nullptr : recurrence.optimizer(stage));
  }
  std::vector<Weights> history = {values_of(stages)};
  Told told;
  for (int t = 0; t < static_cast<int>(batches.size()); ++t) {
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const int version = recurrence.version_of(t, static_cast<int>(s));
      set_values(*stages[s], history[static_cast<std::size_t>(version)][s]);
      stages[s]->zero_grad();
    }
    const Batch& batch = batches[static_cast<std::size_t>(t)];
    double sum = 0;
    const std::int64_t samples = batch.data.size(0);
    std::int64_t begin = 0;
    for (int k = 0; k < recurrence.micro_batches; ++k) {
      const std::int64_t length =
          samples / recurrence.micro_batches + (k < samples % recurrence.micro_batches ? 1 : 0);
      Tensors through = {batch.data.narrow(0, begin, length)};
      for (const auto& stage : stages) through = stage->forward(through);
      const at::Tensor loss = mse(through[0], batch.target.narrow(0, begin, length)) *
                              (static_cast<double>(length) / static_cast<double>(samples));
      loss.backward();
      sum += loss.item<double>();
      begin += length;
    }
    told.losses.push_back(sum);
    history.emplace_back();
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const auto computed = stages[s]->parameters();
      for (std::size_t i = 0; i < computed.size(); ++i)
        leaves[s][i].mutable_grad() = computed[i].grad();
      if (optimizers[s]) optimizers[s]->step();
      history.back().emplace_back();
      for (const at::Tensor& one : leaves[s]) history.back().back().push_back(one.detach().clone());
    }
  }
  told.end = history.back();
  return told;
}

std::function<int(int, int)> versions_of(const std::string& schedule, int stages) {
  if (schedule == "pipedream_2bw") return [](int t, int) { return std::max(0, t - 1); };
  if (schedule == "pipedream:sync=vertical")
    return [=](int t, int) { return std::max(0, t - (stages - 1)); };
  return [=](int t, int s) { return std::max(0, t - (stages - 1 - s)); };
}

struct Trained {
  std::vector<at::Tensor> parameters;  // of the whole model
  std::vector<int> first_layers;
  std::vector<double> losses;
  std::vector<int> versions, live;  // by rank
};

// `finish_after`: it is drained there, and goes on.
Trained train_through(int ranks, const std::function<Layers()>& layers,
                      const PipelineOptions& options, const std::vector<Batch>& batches,
                      int finish_after = -1) {
  Trained trained;
  trained.versions.resize(static_cast<std::size_t>(ranks));
  trained.live.resize(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  run_alone(ranks, [&](Job& job) {
    DeviceMesh mesh(job, "pp=" + std::to_string(ranks));
    Pipeline pipeline(layers(), mesh, options);
    std::vector<double> losses;
    for (int t = 0; t < static_cast<int>(batches.size()); ++t) {
      const Batch& batch = batches[static_cast<std::size_t>(t)];
      losses.push_back(pipeline.step(job.rank() == 0 ? batch.data : at::Tensor(),
                                     job.rank() == ranks - 1 ? batch.target : at::Tensor()));
      if (t == finish_after) pipeline.finish();
    }
    pipeline.finish();
    const auto state = pipeline.state();
    const std::lock_guard lock(mutex);
    trained.versions[static_cast<std::size_t>(job.rank())] = pipeline.last_step().versions;
    trained.live[static_cast<std::size_t>(job.rank())] = pipeline.last_step().live_activations;
    trained.first_layers = pipeline.first_layers();
    if (trained.losses.empty()) {
      trained.losses = losses;
      for (const auto& each : state)
        if (each.key().ends_with("weight") || each.key().ends_with("bias"))
          trained.parameters.push_back(each.value());
    }
    for (std::size_t i = 0; i < losses.size(); ++i)
      EXPECT_TRUE(losses[i] == trained.losses[i] ||
                  (std::isnan(losses[i]) && std::isnan(trained.losses[i])));
  });
  return trained;
}

double greatest_difference(const std::vector<at::Tensor>& got, const Weights& expected) {
  std::vector<at::Tensor> flat;
  for (const auto& stage : expected) flat.insert(flat.end(), stage.begin(), stage.end());
  EXPECT_EQ(got.size(), flat.size());
  double greatest = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    greatest = std::max(greatest, (got[i] - flat[i]).abs().max().item<double>());
  return greatest;
}

std::vector<Batch> batches_of(int count, std::int64_t samples = 12) {
  std::vector<Batch> batches;
  for (int t = 0; t < count; ++t) batches.push_back(batch_of(t, 0, samples, at::kDouble));
  return batches;
}

Layers double_mlp() {
  return mlp(at::kDouble);
}

PipelineOptions endless(const std::string& schedule, int micro_batches, MakeOptimizer optimizer) {
  PipelineOptions options = options_of(schedule, micro_batches);
  options.optimizer = std::move(optimizer);
  return options;
}

TEST(PipeDream, EqualsItsRecurrence) {
  const std::vector<Batch> batches = batches_of(30);
  const std::vector<MakeOptimizer> optimizers = {plain(0.1), momentum(0.05), adam()};
  int turn = 0;
  for (const int ranks : {1, 2, 3, 4}) {
    for (const char* schedule : {"pipedream", "pipedream:sync=vertical"}) {
      const MakeOptimizer& optimizer = optimizers[static_cast<std::size_t>(turn++) % 3];
      SCOPED_TRACE(c10::str(schedule, ", ", ranks, " ranks"));
      const Trained got =
          train_through(ranks, double_mlp, endless(schedule, 1, optimizer), batches);
      const Told expected = run({.layers = double_mlp,
                                 .first_layers = got.first_layers,
                                 .version_of = versions_of(schedule, ranks),
                                 .optimizer = optimizer},
                                batches);
      EXPECT_LE(greatest_difference(got.parameters, expected.end), 1e-12);
      // A loss is told when its mini-batch is back at the first stage.
      for (int t = 0; t < 30; ++t) {
        const double told = got.losses[static_cast<std::size_t>(t)];
        if (t < ranks - 1) EXPECT_TRUE(std::isnan(told));
        else EXPECT_NEAR(told, expected.losses[static_cast<std::size_t>(t - ranks + 1)], 1e-12);
      }
    }
  }
}

TEST(PipeDream, TwoVersionsEqualTheirRecurrence) {
  const std::vector<Batch> batches = batches_of(30, 13);  // cut in parts that are not equal
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int micro_batches : {ranks - 1, ranks, 2 * ranks}) {
      if (micro_batches == 0) continue;
      SCOPED_TRACE(c10::str(ranks, " ranks, ", micro_batches, " micro-batches"));
      const Trained got = train_through(ranks, double_mlp,
                                        endless("pipedream_2bw", micro_batches, adam()), batches);
      const Told expected = run({.layers = double_mlp,
                                 .first_layers = got.first_layers,
                                 .version_of = versions_of("pipedream_2bw", ranks),
                                 .optimizer = adam(),
                                 .micro_batches = micro_batches},
                                batches);
      EXPECT_LE(greatest_difference(got.parameters, expected.end), 1e-12);
      const int behind = (ranks - 1 + micro_batches - 1) / micro_batches;
      EXPECT_NEAR(got.losses.back(), expected.losses[static_cast<std::size_t>(29 - behind)], 1e-12);
    }
  }
}

TEST(PipeDream, KeepsAsManyVersionsAndActivationsAsItsRuleSays) {
  for (const char* schedule : {"pipedream", "pipedream:sync=vertical", "pipedream_2bw"}) {
    const bool has_batches = std::string(schedule) == "pipedream_2bw";
    const int ranks = 4, micro_batches = has_batches ? 3 : 1;
    const auto choice = pipeline::parse_schedule(schedule).value();
    const auto rule = pipeline::version_rule(choice, {ranks, ranks}, micro_batches).value();
    const Trained got = train_through(
        ranks, double_mlp, endless(schedule, micro_batches, plain(0.01)), batches_of(10));
    for (int rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      EXPECT_EQ(got.versions[at], rule.most_kept(rank)) << schedule << ", stage " << rank;
      EXPECT_EQ(got.live[at], ranks - rank) << schedule << ", stage " << rank;
    }
  }
}

TEST(PipeDream, AStepAfterFinishGoesOn) {
  const std::vector<Batch> batches = batches_of(20);
  const Trained got = train_through(3, double_mlp, endless("pipedream", 1, adam()), batches, 8);
  // After the drain, mini-batches are counted from 0 again and version 9 is the first.
  const auto versions = [](int t, int s) {
    const int begin = t < 9 ? 0 : 9;
    return std::max(begin, t - (2 - s));
  };
  const Told expected = run({.layers = double_mlp,
                             .first_layers = got.first_layers,
                             .version_of = versions,
                             .optimizer = adam()},
                            batches);
  EXPECT_LE(greatest_difference(got.parameters, expected.end), 1e-12);
  EXPECT_NEAR(got.losses[9], expected.losses[8], 1e-12);  // all are back
}

TEST(PipeDream, BatchesOfOtherSizesDrainIt) {
  std::vector<Batch> batches;
  for (int t = 0; t < 12; ++t) batches.push_back(batch_of(t, 0, t < 5 ? 12 : 7, at::kDouble));
  const Trained got = train_through(3, double_mlp, endless("pipedream", 1, plain(0.1)), batches);
  const auto versions = [](int t, int s) { return std::max(t < 5 ? 0 : 5, t - (2 - s)); };
  const Told expected = run({.layers = double_mlp,
                             .first_layers = got.first_layers,
                             .version_of = versions,
                             .optimizer = plain(0.1)},
                            batches);
  EXPECT_LE(greatest_difference(got.parameters, expected.end), 1e-12);
}

// A stage's forwards in training move its running statistics, whatever version they run on, and its
// masks are those of the mini-batch.
TEST(PipeDream, VersionsShareBuffersAndMasks) {
  const auto layers = [] {
    Layers all(4);
    const auto linear = [](int in, int out) {
      return [=] {
        nn::Linear one(in, out);
        one->to(at::kDouble);
        return one;
      };
    };
    all.add("flatten", [] { return nn::Flatten(); }).add("in", linear(25, 9));
    all.add("norm", [] {
      nn::BatchNorm1d one(9);
      one->to(at::kDouble);
      return one;
    });
    all.add("drop", [] { return paceline::Dropout(0.5); }).add("head", linear(9, 3));
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

// tanh(x W^T) on each stage.
struct TanhLinearImpl : nn::Cloneable<TanhLinearImpl> {
  explicit TanhLinearImpl(int size) : size_(size) { reset(); }
  void reset() override {
    weight = register_parameter("weight", at::randn({size_, size_}, at::kDouble) * 0.7);
  }
  at::Tensor forward(const at::Tensor& x) { return at::tanh(at::linear(x, weight)); }
  at::Tensor weight;

 private:
  int size_;
};
TORCH_MODULE(TanhLinear);

Layers chain(int stages) {
  Layers layers(2);
  for (int i = 0; i < stages; ++i)
    layers.add("s" + std::to_string(i), [] { return TanhLinear(3); });
  return layers;
}

// Backwards take the newest weights, as they would if no version were kept.
Weights without_stashing(int stages, const std::vector<Batch>& batches, double rate) {
  const Layers layers = chain(stages);
  std::vector<at::Tensor> newest;
  for (int s = 0; s < stages; ++s)
    newest.push_back(layers.make(s)->module()->parameters()[0].detach().clone());
  std::vector<std::vector<at::Tensor>> history = {newest};
  const auto at = [&](int version, int s) {
    return history[static_cast<std::size_t>(std::max(0, version))][static_cast<std::size_t>(s)];
  };
  for (int t = 0; t < static_cast<int>(batches.size()); ++t) {
    std::vector<at::Tensor> xs = {batches[static_cast<std::size_t>(t)].data};
    for (int s = 0; s < stages; ++s)
      xs.push_back(at::tanh(at::linear(xs.back(), at(t - (stages - 1 - s), s))));
    const at::Tensor difference = xs.back() - batches[static_cast<std::size_t>(t)].target;
    at::Tensor dy = 2 * difference / difference.numel();
    std::vector<at::Tensor> next = history.back();
    for (int s = stages; s-- > 0;) {
      const auto place = static_cast<std::size_t>(s);
      const at::Tensor dz = dy * (1 - xs[place + 1].square());
      next[place] = next[place] - rate * dz.t().mm(xs[place]);
      dy = dz.mm(at(t, s));
    }
    history.push_back(std::move(next));
  }
  Weights end;
  for (const at::Tensor& one : history.back()) end.push_back({one});
  return end;
}

TEST(PipeDream, WithoutStashingItWouldBeAnotherTraining) {
  const int stages = 4;
  std::vector<Batch> batches;
  for (int t = 0; t < 30; ++t) {
    const Batch all = batch_of(t, 0, 5, at::kDouble);
    batches.push_back({all.data.flatten(1).narrow(1, 0, 3), at::tanh(all.target)});
  }
  const Trained got = train_through(
      stages, [=] { return chain(stages); }, endless("pipedream", 1, plain(0.3)), batches);
  const Told expected = run({.layers = [=] { return chain(stages); },
                             .first_layers = got.first_layers,
                             .version_of = versions_of("pipedream", stages),
                             .optimizer = plain(0.3)},
                            batches);
  EXPECT_LE(greatest_difference(got.parameters, expected.end), 1e-12);
  EXPECT_GT(greatest_difference(got.parameters, without_stashing(stages, batches, 0.3)), 1e-3);
}

// y = x + w, so that the loss y^2 / 2 of p stages has the largest curvature p.
struct ShiftImpl : nn::Cloneable<ShiftImpl> {
  ShiftImpl() { reset(); }
  void reset() override { weight = register_parameter("weight", at::ones({1}, at::kDouble)); }
  at::Tensor forward(const at::Tensor& x) { return x + weight; }
  at::Tensor weight;
};
TORCH_MODULE(Shift);

TEST(PipeDream, OptionsThatAreSetForABatchAreThoseOfItsUpdateOnAllStages) {
  const int stages = 3;
  Layers layers;
  for (int i = 0; i < stages; ++i) layers.add("s" + std::to_string(i), [] { return Shift(); });
  PipelineOptions options = endless("pipedream", 1, plain(5));
  options.loss = [](const at::Tensor& y, const at::Tensor&) { return y.sum(); };
  run_alone(stages, [&](Job& job) {
    DeviceMesh mesh(job, "pp=3");
    Pipeline pipeline(layers, mesh, options);
    const at::Tensor nothing = at::zeros({1}, at::kDouble);
    double sum = 0;
    for (int t = 0; t < 12; ++t) {
      const double rate = 0.2 / (1 + t);
      pipeline.step(nothing, nothing, [&](torch::optim::Optimizer& optimizer) {
        for (auto& group : optimizer.param_groups()) group.options().set_lr(rate);
      });
      if (t == 8) pipeline.finish();
      sum += rate;  // each gradient is 1
    }
    for (const auto& each : pipeline.state())
      EXPECT_NEAR(each.value().item<double>(), 1 - sum, 1e-12) << each.key();
  });
}

// The largest |sum of the weights| over the last 50 of so many steps, over that of steps 50 to 100.
double growth(int stages, double share_of_threshold, int steps) {
  const double threshold = 2 * std::sin(std::numbers::pi / (2 * (2 * (stages - 1) + 1)));
  Layers layers;
  for (int i = 0; i < stages; ++i) layers.add("s" + std::to_string(i), [] { return Shift(); });
  PipelineOptions options =
      endless("pipedream:sync=vertical", 1, plain(share_of_threshold * threshold / stages));
  options.loss = [](const at::Tensor& y, const at::Tensor&) { return y.square().sum() / 2; };
  double before = 0, after = 0;
  run_alone(stages, [&](Job& job) {
    DeviceMesh mesh(job, "pp=" + std::to_string(stages));
    Pipeline pipeline(layers, mesh, options);
    const at::Tensor nothing = at::zeros({1}, at::kDouble);
    double first = 0, last = 0;
    for (int t = 0; t < steps; ++t) {
      const double loss = pipeline.step(nothing, nothing);
      if (t >= 50 && t < 100) first = std::max(first, std::sqrt(2 * loss));
      if (t >= steps - 50) last = std::max(last, std::sqrt(2 * loss));
    }
    pipeline.finish();
    if (job.rank() == 0) before = first, after = last;
  });
  return after / before;
}

TEST(PipeDream, VerticalSyncOnAQuadraticIsStableBelowTheThresholdAlone) {
  EXPECT_LT(growth(2, 0.999, 2000), 0.7);
  EXPECT_GT(growth(2, 1.001, 2000), 1.4);
  EXPECT_LT(growth(3, 0.99, 1000), 0.7);
  EXPECT_GT(growth(3, 1.01, 1000), 1.4);
}

TEST(PipeDream, ReplicasTakeTheMeanGradient) {
  const std::vector<Batch> batches = batches_of(12);
  for (const char* schedule : {"pipedream", "pipedream_2bw"}) {
    const int micro_batches = std::string(schedule) == "pipedream" ? 1 : 2;
    std::vector<at::Tensor> parameters;
    std::vector<int> first_layers;
    run_alone(4, [&](Job& job) {
      DeviceMesh mesh(job, "dp=2,pp=2");
      Pipeline pipeline(double_mlp(), mesh, endless(schedule, micro_batches, adam()));
      for (const Batch& batch : batches) {
        const at::Tensor rows = at::arange(mesh.rank("dp"), 12, 2);
        pipeline.step(batch.data.index_select(0, rows), batch.target.index_select(0, rows));
      }
      pipeline.finish();
      const auto state = pipeline.state();
      if (job.rank() != 0) return;
      first_layers = pipeline.first_layers();
      parameters = state.values();
    });
    const Told expected = run({.layers = double_mlp,
                               .first_layers = first_layers,
                               .version_of = versions_of(schedule, 2),
                               .optimizer = adam()},
                              batches);
    EXPECT_LE(greatest_difference(parameters, expected.end), 1e-9) << schedule;
  }
}

// A layer of a class that derives from torch::nn::Module alone.
struct PlainImpl : nn::Module {
  PlainImpl() { linear = register_module("linear", nn::Linear(7, 3)); }
  at::Tensor forward(const at::Tensor& x) { return linear(x); }
  nn::Linear linear{nullptr};
};
TORCH_MODULE(Plain);
struct DerivedImpl : nn::LinearImpl {
  DerivedImpl() : nn::LinearImpl(7, 3) {}
};
TORCH_MODULE(Derived);

std::string refusal_of(const std::function<void(PipelineOptions&)>& change,
                       const std::function<void(Layers&)>& add = {}, int ranks = 3) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  run_alone(ranks, [&](Job& job) {
    DeviceMesh mesh(job, "pp=" + std::to_string(ranks));
    PipelineOptions options = endless("pipedream", 1, plain(0.1));
    if (change) change(options);
    Layers layers(5);
    layers.add("in", [] { return nn::Linear(25, 7); });
    layers.add("relu", [] { return nn::ReLU(); });
    if (add) add(layers);
    else layers.add("head", [] { return nn::Linear(7, 3); });
    texts[static_cast<std::size_t>(job.rank())] =
        misuse_of([&] { Pipeline pipeline(layers, mesh, options); });
  });
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);  // all ranks say it
  return texts[0];
}

TEST(PipeDream, RefusesByNameWhatDoesNotGo) {
  EXPECT_THAT(
      refusal_of([](auto& o) { o.training.max_grad_norm = 0.5; }),
      AllOf(HasSubstr("\"pipedream\""), HasSubstr("max_grad_norm 0.5"), HasSubstr("leave it 0")));
  EXPECT_THAT(refusal_of([](auto& o) { o.training.precision = "o1:dtype=fp16"; }),
              AllOf(HasSubstr("fp16"), HasSubstr("bf16")));
  EXPECT_THAT(refusal_of([](auto& o) { o.training.precision = "o2"; }),
              AllOf(HasSubstr("\"o2\""), HasSubstr("\"o1\"")));
  EXPECT_THAT(refusal_of([](auto& o) { o.training.zero_stage = 1; }),
              AllOf(HasSubstr("\"pipedream\""), HasSubstr("zero_stage 1")));
  EXPECT_THAT(refusal_of([](auto& o) { o.training.non_finite = "skip"; }),
              HasSubstr("non_finite \"skip\""));
  EXPECT_THAT(refusal_of([](auto& o) { o.micro_batches = 4; }),
              AllOf(HasSubstr("micro_batches 4"), HasSubstr("pipedream_2bw")));
  EXPECT_THAT(refusal_of([](auto& o) { o.schedule = "pipedream_2bw"; }),
              AllOf(HasSubstr("at least 2 micro-batches"), HasSubstr("it has 1")));
  EXPECT_THAT(refusal_of([](auto& o) {
                o.optimizer = {};
                o.training.optimizer = [](const at::Tensor& one) {
                  return std::make_unique<torch::optim::SGD>(Tensors{one}, 0.1);
                };
              }),
              AllOf(HasSubstr("training.optimizer"), HasSubstr("PipelineOptions::optimizer")));
  EXPECT_THAT(refusal_of([](auto& o) { o.partition = "0-1x2,2-2"; }, {}, 3),
              HasSubstr("without replicas"));
}

TEST(PipeDream, RefusesLayersOnAllRanks) {
  EXPECT_THAT(
      refusal_of({}, [](Layers& layers) { layers.add("plain", [] { return Plain(); }); }),
      AllOf(HasSubstr("'plain'"), HasSubstr("PlainImpl"), HasSubstr("torch::nn::Cloneable")));
  EXPECT_THAT(
      refusal_of({}, [](Layers& layers) { layers.add("derived", [] { return Derived(); }); }),
      AllOf(HasSubstr("'derived'"), HasSubstr("DerivedImpl"), HasSubstr("another class")));
  EXPECT_THAT(
      refusal_of({}, [](Layers& layers) { layers.add("norm", [] { return SyncBatchNorm(7); }); }),
      AllOf(HasSubstr("SyncBatchNorm"), HasSubstr("'norm'"), HasSubstr("BatchNorm")));
}

}  // namespace
}  // namespace paceline
