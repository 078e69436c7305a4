// Trainings by pipelines without a flush, and by the recurrences that they equal, for the tests of
// this room.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "paceline/torch/pipeline/stage_module.h"
#include "tests/torch/pipeline/small_pipelines.h"

namespace paceline::pipeline_tests {

using pipeline::StageModule;
using Weights = std::vector<std::vector<at::Tensor>>;  // by stage

// The layers are small, and ranks are more than processors.
class OneThread {
 public:
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_ = at::get_num_threads();
};

inline void run_alone(int ranks, const std::function<void(Job&)>& run) {
  const OneThread here;
  run_ranks(ranks, [&](Job& job) {
    at::set_num_threads(1);
    run(job);
  });
}

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(Tensors parameters)>;

inline MakeOptimizer momentum(double rate) {
  return [rate](Tensors parameters) {
    return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                               torch::optim::SGDOptions(rate).momentum(0.5));
  };
}
inline MakeOptimizer plain(double rate) {
  return [rate](Tensors parameters) {
    return std::make_unique<torch::optim::SGD>(std::move(parameters), rate);
  };
}
inline MakeOptimizer adam() {
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
  // A stage steps by the sum of so many gradients, and at the end by those that there are; its
  // versions are counted in its own steps. Empty: one on each stage.
  std::vector<int> replicas = {};
};

struct Told {
  Weights end;
  std::vector<double> losses;
};

inline Weights values_of(const std::vector<std::shared_ptr<StageModule>>& stages) {
  Weights values;
  for (const auto& stage : stages) {
    values.emplace_back();
    for (const at::Tensor& one : stage->parameters()) values.back().push_back(one.detach().clone());
  }
  return values;
}

inline void set_values(StageModule& stage, const std::vector<at::Tensor>& values) {
  const at::NoGradGuard no_grad;
  const auto parameters = stage.parameters();
  for (std::size_t i = 0; i < values.size(); ++i) parameters[i].copy_(values[i]);
}

inline Told run(const Recurrence& recurrence, const std::vector<Batch>& batches) {
  const OneThread small;
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
  std::vector<Weights> history;  // by stage and version
  for (auto& first : values_of(stages)) history.push_back({std::move(first)});
  Told told;
  for (int t = 0; t < static_cast<int>(batches.size()); ++t) {
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const int version = recurrence.version_of(t, static_cast<int>(s));
      set_values(*stages[s], history[s].at(static_cast<std::size_t>(version)));
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
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const auto computed = stages[s]->parameters();
      for (std::size_t i = 0; i < computed.size(); ++i) {
        at::Tensor& sum = leaves[s][i].mutable_grad();
        sum = sum.defined() ? sum + computed[i].grad() : computed[i].grad().clone();
      }
      const int replicas = recurrence.replicas.empty() ? 1 : recurrence.replicas[s];
      if ((t + 1) % replicas != 0 && t + 1 < static_cast<int>(batches.size())) continue;
      if (optimizers[s]) optimizers[s]->step();
      history[s].emplace_back();
      for (at::Tensor& one : leaves[s]) {
        history[s].back().push_back(one.detach().clone());
        one.mutable_grad().reset();
      }
    }
  }
  for (const Weights& versions : history) told.end.push_back(versions.back());
  return told;
}

inline std::function<int(int, int)> versions_of(const std::string& schedule, int stages) {
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
inline Trained train_through(int ranks, const std::function<Layers()>& layers,
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
      losses.push_back(pipeline.step(pipeline.reads_data() ? batch.data : at::Tensor(),
                                     pipeline.reads_target() ? batch.target : at::Tensor()));
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
    if (options.partition.find('x') != std::string::npos) return;  // each rank has its own losses
    for (std::size_t i = 0; i < losses.size(); ++i)
      EXPECT_TRUE(losses[i] == trained.losses[i] ||
                  (std::isnan(losses[i]) && std::isnan(trained.losses[i])));
  });
  return trained;
}

inline double greatest_difference(const std::vector<at::Tensor>& got, const Weights& expected) {
  std::vector<at::Tensor> flat;
  for (const auto& stage : expected) flat.insert(flat.end(), stage.begin(), stage.end());
  EXPECT_EQ(got.size(), flat.size());
  double greatest = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    greatest = std::max(greatest, (got[i] - flat[i]).abs().max().item<double>());
  return greatest;
}

inline std::vector<Batch> batches_of(int count, std::int64_t samples = 12) {
  std::vector<Batch> batches;
  for (int t = 0; t < count; ++t) batches.push_back(batch_of(t, 0, samples, at::kDouble));
  return batches;
}

inline Layers double_mlp() {
  return mlp(at::kDouble);
}

template <typename Holder>
Holder as_double(Holder layer) {
  layer->to(at::kDouble);
  return layer;
}
inline std::function<nn::Linear()> doubled(const nn::LinearOptions& options) {
  return [options] { return as_double(nn::Linear(options)); };
}

inline PipelineOptions endless(const std::string& schedule, int micro_batches,
                               MakeOptimizer optimizer) {
  PipelineOptions options = options_of(schedule, micro_batches);
  options.optimizer = std::move(optimizer);
  return options;
}

}  // namespace paceline::pipeline_tests
