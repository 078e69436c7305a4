// Trainings by every stage of sharding, for the tests of this room.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/parallel/parallel.h"
#include "paceline/torch/shard/shard.h"
#include "tests/support/local_world.h"
#include "tests/support/misuse.h"
#include "tests/support/seed.h"

namespace paceline::sharded_tests {

namespace nn = torch::nn;

// Sizes that no number of ranks divides.
inline nn::Sequential mlp(at::ScalarType type) {
  torch::manual_seed(5);
  nn::Sequential model(nn::Flatten(), nn::Linear(25, 37), nn::ReLU(), nn::Linear(37, 41),
                       nn::Tanh(), nn::Linear(41, 29), nn::Tanh(), nn::Linear(29, 5));
  model->to(type);
  return model;
}

inline nn::Sequential cnn(at::ScalarType type) {
  torch::manual_seed(6);
  nn::Sequential model(nn::Conv2d(nn::Conv2dOptions(1, 7, 3).padding(1)), nn::ReLU(),
                       nn::Conv2d(7, 9, 3), nn::BatchNorm2d(9), nn::ReLU(), nn::Flatten(),
                       nn::Linear(81, 13), nn::LayerNorm(nn::LayerNormOptions({13})),
                       nn::Linear(13, 5));
  model->to(type);
  return model;
}

// A list within a model that has parameters of its own, one of them in use at both ends; a branch
// that a step may leave out; and one that none uses.
struct TreeImpl : nn::Module {
  TreeImpl() {
    torch::manual_seed(7);
    embedding = register_parameter("embedding", at::randn({11, 19}) * 0.3);
    blocks = register_module("blocks", nn::ModuleList());
    for (int i = 0; i < 3; ++i)
      blocks->push_back(nn::Sequential(nn::Linear(19, 19), nn::Tanh(), nn::Linear(19, 19)));
    side = register_module("side", nn::Linear(19, 19));
    never = register_module("never", nn::Linear(3, 3));
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& ids, bool use_side = false) {
    at::Tensor x = at::embedding(embedding, ids);
    for (const auto& block : *blocks) x = x + block->as<nn::Sequential>()->forward(x);
    if (use_side) x = x + side(x);
    return at::linear(x, embedding);
  }
  at::Tensor embedding;
  nn::ModuleList blocks;
  nn::Linear side{nullptr}, never{nullptr};
};
TORCH_MODULE(Tree);

inline at::Generator generator_of(int number) {
  return at::detail::createCPUGenerator(test::seed(900 + static_cast<std::uint64_t>(number)));
}

// A batch of the mlp and the cnn.
inline at::Tensor loss_of(nn::Sequential& model, int step, int rank, int rows = 4) {
  at::Generator generator = generator_of(100 * step + rank);
  const auto type = model->parameters().front().scalar_type();
  const at::Tensor x =
      at::randn({rows, 1, 5, 5}, generator, at::TensorOptions().dtype(at::kDouble)).to(type);
  const at::Tensor y =
      at::randn({rows, 5}, generator, at::TensorOptions().dtype(at::kDouble)).to(type);
  return at::mse_loss(model->forward(x), y);
}

inline at::Tensor loss_of(Tree& model, int step, int rank, bool use_side = false) {
  at::Generator generator = generator_of(100 * step + rank);
  const at::Tensor ids = at::randint(11, {6}, generator, at::TensorOptions().dtype(at::kLong));
  return at::cross_entropy_loss(model->forward(ids, use_side), (ids + 1) % 11);
}

struct Stage {
  int stage = 0;
  int prefetch = 1;
};
inline const std::vector<Stage> kSharded = {{1, 1}, {2, 1}, {3, 0}, {3, 1}, {3, 2}};

inline std::ostream& operator<<(std::ostream& out, const Stage& of) {
  return out << "stage " << of.stage << ", prefetch " << of.prefetch;
}

inline DataParallelOptions options_of(const Stage& stage) {
  DataParallelOptions options{.first_bucket_bytes = 4000, .bucket_bytes = 9000};
  options.zero_stage = stage.stage;
  options.zero_prefetch = stage.prefetch;
  options.check_replicas_every = 2;
  return options;
}

inline std::unique_ptr<torch::optim::Optimizer> optimizer_of(
    const std::string& name, const std::vector<at::Tensor>& parameters) {
  using namespace torch::optim;
  if (name == "adam")
    return std::make_unique<Adam>(parameters, AdamOptions(0.01).weight_decay(0.1));
  if (name == "adamw") return std::make_unique<AdamW>(parameters, AdamWOptions(0.01));
  return std::make_unique<SGD>(parameters, SGDOptions(0.05).momentum(name == "momentum" ? 0.9 : 0));
}

inline std::string digest_of(const nn::Module& model) {
  return sha256_of(model.parameters());
}

// Runs `steps` on every rank of a training of this stage and returns the digest of the parameters,
// which is the same on all.
template <typename Model>
std::string digest_after(
    int ranks, const Stage& stage, const std::string& optimizer_name,
    const std::function<Model()>& make_model,
    const std::function<void(DataParallel&, Model&, torch::optim::Optimizer&, int rank)>& steps,
    const LocalWorldOptions& world = {},
    const std::function<void(DataParallelOptions&)>& adjust = {}) {
  std::mutex mutex;
  std::vector<Model> models;  // generators and modules are not made by several threads at once
  for (int rank = 0; rank < ranks; ++rank) models.push_back(make_model());
  std::string digest;
  test::run_ranks(ranks, world, [&](Job& job) {
    Model& model = models[static_cast<std::size_t>(job.rank())];
    DataParallelOptions options = options_of(stage);
    if (adjust) adjust(options);
    DataParallel parallel(model, job, options);
    const auto optimizer = optimizer_of(optimizer_name, parallel.parameters());
    steps(parallel, model, *optimizer, job.rank());
    const auto whole = parallel.gathered();
    const std::lock_guard lock(mutex);
    if (digest.empty()) digest = digest_of(*model);
    EXPECT_EQ(digest_of(*model), digest) << "replicas differ, " << stage;
  });
  return digest;
}

using test::misuse_of;

}  // namespace paceline::sharded_tests
