// Layers that draw numbers or remember batches go on after a resume as if nothing had been.
#include <gtest/gtest.h>

#include "paceline/torch/norm/norm.h"
#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

constexpr std::int64_t kSaved = 8, kDied = 10, kEnd = kSaved + 20;

// A training of layers of these types on so many ranks.
struct TrainingOfLayers {
  int ranks = 2;
  std::function<nn::Sequential()> make_model;
  BufferMode buffers = BufferMode::broadcast;

  // Goes on from what the directory holds, until `steps` are done. Returns the digests of all
  // ranks' parameters and buffers.
  std::vector<std::string> run(const std::string& directory, std::int64_t steps) const {
    std::vector<std::string> digests(static_cast<std::size_t>(ranks));
    if (ranks == 1) torch::manual_seed(3);  // of ranks that are threads all draw from one stream
    run_ranks(ranks, [&](Job& job) {
      nn::Sequential model = make_model();
      fill(*model);
      DataParallel data_parallel(model, job, {.buffers = buffers});
      optim::SGD optimizer(model->parameters(), optim::SGDOptions(0.05).momentum(0.9));
      Checkpoints checkpoints(job, directory, {.every = kSaved, .resume = true});
      checkpoints.add("model", model);
      checkpoints.add("optimizer", optimizer);
      checkpoints.add("parallel", data_parallel);
      std::int64_t step = checkpoints.resume();
      while (step < steps) {
        const Samples batch = samples(static_cast<int>(step) * ranks + job.rank(), 6);
        optimizer.zero_grad();
        at::mse_loss(model->forward(batch.x.to(at::kFloat)), batch.y.to(at::kFloat)).backward();
        data_parallel.step(optimizer);
        checkpoints.save_if_due(++step);
      }
      EXPECT_EQ(checkpoints.finish(), 0);
      data_parallel.finish();
      std::vector<at::Tensor> all = model->parameters();
      for (const at::Tensor& buffer : model->buffers()) all.push_back(buffer);
      digests[static_cast<std::size_t>(job.rank())] = sha256_of(all);
    });
    return digests;
  }

  void expect_same_bits_after_resuming() const {
    const TemporaryFolder whole, parted;
    const auto expected = run(whole.file("run"), kEnd);
    const auto died = run(parted.file("run"), kDied);
    EXPECT_NE(died, expected);
    EXPECT_EQ(run(parted.file("run"), kEnd), expected);
  }

 private:
  // Numbers that do not move torch's own stream.
  static void fill(nn::Module& model) {
    at::Generator generator = at::detail::createCPUGenerator(7);
    const at::NoGradGuard no_grad;
    for (at::Tensor& one : model.parameters())
      one.copy_(at::randn(one.sizes(), generator, at::TensorOptions()).mul_(0.5));
  }
};

TEST(ResumedLayers, ADropoutDrawsOnForTwentySteps) {
  const TrainingOfLayers training{.ranks = 1, .make_model = [] {
                                    return nn::Sequential(nn::Linear(6, 8), nn::Dropout(0.4),
                                                          nn::Linear(8, 3));
                                  }};
  training.expect_same_bits_after_resuming();
}

TEST(ResumedLayers, ASyncBatchNormHasTheStatisticsOfAllRanks) {
  const TrainingOfLayers training{.ranks = 3, .make_model = [] {
                                    nn::Sequential model(nn::Linear(6, 8), nn::BatchNorm1d(8),
                                                         nn::Tanh(), nn::Linear(8, 3));
                                    EXPECT_EQ(convert_sync_batch_norm(*model), 1U);
                                    return model;
                                  }};
  training.expect_same_bits_after_resuming();
}

TEST(ResumedLayers, ABatchNormHasTheStatisticsOfItsOwnRank) {
  const TrainingOfLayers training{.ranks = 2,
                                  .make_model =
                                      [] {
                                        return nn::Sequential(nn::Linear(6, 8), nn::BatchNorm1d(8),
                                                              nn::Tanh(), nn::Linear(8, 3));
                                      },
                                  .buffers = BufferMode::off};
  training.expect_same_bits_after_resuming();
  const TemporaryFolder folder;
  const auto digests = training.run(folder.file("run"), kSaved);
  EXPECT_NE(digests[0], digests[1]) << "each rank has its own";
}

}  // namespace
}  // namespace paceline
