// Checkpoints of trainings whose models lie on devices (tests/devices/cuda_double.h): they go on
// there, on the CPU, and the other way round.
#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/base/disk.h"
#include "paceline/core/checkpoint/checkpoint.h"
#include "paceline/torch/checkpointing/checkpointing.h"
#include "paceline/torch/parallel/parallel.h"
#include "tests/devices/cuda_double.h"
#include "tests/devices/small_models.h"
#include "tests/support/local_world.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using ::testing::ElementsAre;

constexpr int kRanks = 2, kSteps = 8, kBreak = 4;

struct Resumed {
  std::string name;
  DataParallelOptions options = {};
  std::function<nn::Sequential()> model = small_mlp;
  bool has_adam = false;
  double tolerance = 1e-5;  // of losses
};

void PrintTo(const Resumed& training, std::ostream* into) {
  *into << training.name;
}

std::unique_ptr<torch::optim::Optimizer> optimizer_of(const Resumed& training,
                                                      std::vector<at::Tensor> parameters) {
  if (training.has_adam) {
    return std::make_unique<torch::optim::Adam>(std::move(parameters),
                                                torch::optim::AdamOptions(1e-2));
  }
  return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                             torch::optim::SGDOptions(0.05).momentum(0.9));
}

// One run: the place of its models, its last step, and what it saves.
struct Lap {
  bool on_device = false;
  int first_device = 0;  // rank 0's
  int until = kSteps;    // the last step
  std::string folder;    // empty: no checkpoints
  bool resumes = false;
};

// Rank 0's losses, of the steps that it made.
std::vector<double> losses_of(const Resumed& training, const Lap& lap) {
  std::vector<double> losses;
  run_ranks(kRanks, [&](Job& job) {
    const at::Device device = place_of(lap.on_device, lap.first_device + job.rank());
    nn::Sequential model = training.model();
    draw_parameters(model);
    model->to(device);
    DataParallel parallel(*model, job, training.options);
    const auto optimizer = optimizer_of(training, parallel.parameters());
    std::optional<Checkpoints> checkpoints;
    if (!lap.folder.empty()) {
      checkpoints.emplace(job, lap.folder,
                          CheckpointOptions{.every = kBreak, .resume = lap.resumes});
      checkpoints->add("model", model);
      checkpoints->add("optimizer", *optimizer);
      checkpoints->add("parallel", parallel);
    }
    std::int64_t step = checkpoints ? checkpoints->resume() : 0;
    while (step < lap.until) {
      at::Generator draw =
          at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * step + job.rank()));
      const at::Tensor data = at::randn({6, 12}, draw).to(device, parallel.input_type()),
                       target = at::randint(5, {6}, draw, at::kLong).to(device);
      optimizer->zero_grad();
      const auto scope = parallel.autocast();
      const at::Tensor loss =
          nn::functional::cross_entropy(model->forward(data).to(at::kFloat), target);
      parallel.backward(loss);
      parallel.step(*optimizer);
      if (job.rank() == 0) losses.push_back(loss.item<double>());
      ++step;
      if (checkpoints) checkpoints->save_if_due(step);
    }
    const int code = checkpoints ? checkpoints->finish() : 0;
    EXPECT_EQ(code, 0);
    parallel.finish();
  });
  return losses;
}

std::vector<Resumed> resumed_trainings() {
  return {
      {.name = "sgd", .model = small_cnn},
      {.name = "adam", .has_adam = true},
      {.name = "gpt", .model = small_gpt, .has_adam = true},
      {.name = "top_k", .options = {.compression = "top_k:ratio=0.2,min_compress_bytes=0"}},
      {.name = "power_sgd", .options = {.compression = "power_sgd:rank=2,min_compress_bytes=0"}},
      {.name = "local_sgd", .options = {.synchrony = "local_sgd:period=3"}, .model = small_cnn},
      {.name = "o2", .options = {.precision = "o2"}, .tolerance = 0.05},
      {.name = "o1_fp16", .options = {.precision = "o1:dtype=fp16"}, .tolerance = 0.05}};
}

class ResumedTraining : public ::testing::TestWithParam<Resumed> {};

TEST_P(ResumedTraining, HasTheLossesOfARunThatWentOnOnTheCpu) {
  const Resumed& training = GetParam();
  const std::vector<double> expected = losses_of(training, {});
  ASSERT_EQ(expected.size(), std::size_t{kSteps});
  for (const auto& [first, then] : {std::pair{true, false}, {false, true}, {true, true}}) {
    SCOPED_TRACE(first ? (then ? "from devices to others" : "from devices to the CPU")
                       : "from the CPU to devices");
    const TemporaryFolder folder;
    const std::string run = folder.file("run");
    std::vector<double> got =
        losses_of(training, {.on_device = first, .until = kBreak, .folder = run});
    const std::vector<double> rest =
        losses_of(training, {.on_device = then, .first_device = 2, .folder = run, .resumes = true});
    EXPECT_EQ(rest.size(), std::size_t{kSteps - kBreak});
    got.insert(got.end(), rest.begin(), rest.end());
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], expected[i], training.tolerance) << "step " << i + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, ResumedTraining, ::testing::ValuesIn(resumed_trainings()),
                         [](const auto& one) { return one.param.name; });

// --- random numbers ------------------------------------------------------------------------------

// The next numbers that a device draws.
at::Tensor drawn_on(at::Device device) {
  const at::Generator generator = at::globalContext().defaultGenerator(device);
  return at::empty({8}, at::TensorOptions(at::kFloat).device(device))
      .uniform_(0, 1, generator)
      .cpu();
}

void seed_device(at::Device device, std::uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

// Each rank saves or resumes a model of its place, and draws there; what the ranks drew.
std::vector<at::Tensor> drawn_by_ranks(const std::string& run, bool on_device, int first_device,
                                       bool resumes) {
  std::vector<at::Tensor> drawn(kRanks);
  run_ranks(kRanks, [&](Job& job) {
    const at::Device device = place_of(on_device, first_device + job.rank());
    nn::Sequential model = small_mlp();
    draw_parameters(model);
    model->to(device);
    Checkpoints checkpoints(job, run, {.resume = resumes});
    checkpoints.add("model", model);
    if (on_device) seed_device(device, static_cast<std::uint64_t>(30 + first_device + job.rank()));
    if (on_device) drawn_on(device);
    checkpoints.resume();
    const bool is_saved = resumes || checkpoints.save(1);
    EXPECT_TRUE(is_saved);
    if (on_device) drawn[static_cast<std::size_t>(job.rank())] = drawn_on(device);
  });
  return drawn;
}

// The tensors of the item of random numbers, in the order of the manifest.
std::vector<std::string> streams_in(const std::string& run) {
  SystemDisk disk;
  const auto manifest = checkpoint::read_manifest(disk, run + "/step-00000001").value();
  std::vector<std::string> names;
  for (const checkpoint::Item& item : manifest.items) {
    if (item.name != "random") continue;
    for (const checkpoint::LogicalTensor& tensor : item.tensors)
      names.push_back(tensor.name + "@" + std::to_string(tensor.rank));
  }
  std::ranges::sort(names);
  return names;
}

TEST(RandomNumbersOfDevices, GoOnOnOtherDevices) {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  const auto expected = drawn_by_ranks(run, true, 0, false);
  EXPECT_THAT(streams_in(run), ElementsAre("cpu@0", "cpu@1", "cuda@0", "cuda@1"));
  const auto got = drawn_by_ranks(run, true, 2, true);
  for (std::size_t rank = 0; rank < kRanks; ++rank)
    EXPECT_TRUE(at::equal(got[rank], expected[rank])) << "rank " << rank;
  EXPECT_FALSE(at::equal(got[0], got[1]));
}

TEST(RandomNumbersOfDevices, AreNewAndEachRanksOwnAfterACheckpointOfTheCpu) {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  drawn_by_ranks(run, false, 0, false);
  EXPECT_THAT(streams_in(run), ElementsAre("cpu@0", "cpu@1"));
  const auto once = drawn_by_ranks(run, true, 0, true), again = drawn_by_ranks(run, true, 2, true);
  for (std::size_t rank = 0; rank < kRanks; ++rank)
    EXPECT_TRUE(at::equal(once[rank], again[rank])) << "rank " << rank;
  EXPECT_FALSE(at::equal(once[0], once[1]));
}

TEST(RandomNumbersOfDevices, AreLeftOutOnTheCpu) {
  const TemporaryFolder folder;
  const std::string run = folder.file("run");
  drawn_by_ranks(run, true, 0, false);
  drawn_by_ranks(run, false, 0, true);
}

}  // namespace
}  // namespace paceline::test
