// Small models as lists of layers, and trainings of them as pipelines, for the tests of this room.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "paceline/torch/pipeline/pipeline.h"
#include "paceline/torch/tensor/tensor.h"
#include "tests/support/local_world.h"
#include "tests/support/misuse.h"

namespace paceline::pipeline_tests {

namespace nn = torch::nn;
using test::run_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Eight layers, of which some have no parameters.
inline Layers mlp(at::ScalarType type = at::kFloat) {
  Layers layers(5);
  const auto linear = [type](int in, int out) {
    return [=] {
      nn::Linear one(in, out);
      one->to(type);
      return one;
    };
  };
  layers.add("flatten", [] { return nn::Flatten(); });
  layers.add("first", linear(25, 17)).add("relu", [] { return nn::ReLU(); });
  layers.add("second", linear(17, 13)).add("tanh", [] { return nn::Tanh(); });
  layers.add("blocks.0", linear(13, 11)).add("blocks.1", linear(11, 7));
  layers.add("head", linear(7, 3));
  return layers;
}

// With running statistics, which each micro-batch moves.
inline Layers cnn() {
  Layers layers(6);
  layers.add("conv", [] { return nn::Conv2d(nn::Conv2dOptions(1, 4, 3).padding(1)); });
  layers.add("norm", [] { return nn::BatchNorm2d(4); });
  layers.add("relu", [] { return nn::ReLU(); });
  layers.add("conv2", [] { return nn::Conv2d(4, 5, 3); });
  layers.add("flatten", [] { return nn::Flatten(); });
  layers.add("dropout", [] { return paceline::Dropout(0.25); });
  layers.add("head", [] { return nn::Linear(45, 3); });
  return layers;
}

struct Batch {
  at::Tensor data, target;
};

inline Batch batch_of(int step, int replica, std::int64_t samples, at::ScalarType type) {
  at::Generator generator =
      at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * step + replica + 7));
  const auto f64 = at::TensorOptions().dtype(at::kDouble);
  return {at::randn({samples, 1, 5, 5}, generator, f64).to(type),
          at::randn({samples, 3}, generator, f64).to(type)};
}

inline at::Tensor mse(const at::Tensor& output, const at::Tensor& target) {
  return at::mse_loss(output, target);
}

inline PipelineOptions options_of(const std::string& schedule, int micro_batches) {
  PipelineOptions options;
  options.schedule = schedule;
  options.micro_batches = micro_batches;
  options.loss = mse;
  options.optimizer = [](std::vector<at::Tensor> parameters) {
    return std::make_unique<torch::optim::Adam>(std::move(parameters),
                                                torch::optim::AdamOptions(0.01));
  };
  return options;
}

struct Course {
  std::function<Layers()> layers = [] { return mlp(); };
  at::ScalarType type = at::kFloat;
  std::string layout = "pp=1";
  int ranks = 1;
  PipelineOptions options = {};
  int steps = 5;
  std::int64_t samples = 16;  // of a global batch
  LocalWorldOptions world = {};
};

struct End {
  std::string digest;  // of the parameters
  std::vector<double> losses;
  torch::OrderedDict<std::string, at::Tensor> state;
  std::vector<int> live;  // by rank
};

// All ranks end with the same losses, state and digest, which are returned.
inline End train(const Course& course) {
  End end;
  end.live.resize(static_cast<std::size_t>(course.ranks));
  std::mutex mutex;
  run_ranks(course.ranks, course.world, [&](Job& job) {
    DeviceMesh mesh(job, course.layout);
    Pipeline pipeline(course.layers(), mesh, course.options);
    const int replicas = mesh.size("dp");
    std::vector<double> losses;
    for (int step = 0; step < course.steps; ++step) {
      const Batch whole = batch_of(step, 0, course.samples, course.type);
      // Rows are dealt, as samples are.
      const at::Tensor rows = at::arange(mesh.rank("dp"), course.samples, replicas);
      const bool is_first = mesh.rank("pp") == 0, is_last = mesh.rank("pp") + 1 == mesh.size("pp");
      losses.push_back(pipeline.step(is_first ? whole.data.index_select(0, rows) : at::Tensor(),
                                     is_last ? whole.target.index_select(0, rows) : at::Tensor()));
    }
    pipeline.finish();
    const std::string digest = pipeline.parameters_sha256();
    auto state = pipeline.state();
    const std::lock_guard lock(mutex);
    end.live[static_cast<std::size_t>(job.rank())] = pipeline.last_step().live_activations;
    if (end.digest.empty()) {
      end.digest = digest;
      end.losses = losses;
      end.state = std::move(state);
    }
    EXPECT_EQ(digest, end.digest);
    EXPECT_EQ(losses, end.losses);
  });
  return end;
}

using test::misuse_of;

}  // namespace paceline::pipeline_tests
