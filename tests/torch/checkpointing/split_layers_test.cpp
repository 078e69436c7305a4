// Checkpoints of models whose layers ranks share, resumed on other layouts.
#include <filesystem>
#include <mutex>
#include <tuple>

#include "examples/05_tiny_gpt/model.h"
#include "paceline/core/mesh/mesh.h"
#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

constexpr tiny_gpt::Options kModel{
    .vocabulary = 19, .length = 8, .features = 16, .heads = 4, .kv_heads = 2, .layers = 2};

tiny_gpt::Model model_of(std::uint64_t seed) {
  static std::mutex mutex;  // ranks are threads here, and torch has one generator
  const std::lock_guard lock(mutex);
  torch::manual_seed(seed);
  tiny_gpt::Model model(kModel);
  model->to(at::kDouble);
  return model;
}

struct LayoutRun {
  std::string directory;
  const char* layout;
  int ranks;
  bool resume = false;
  std::string precision = "none";
  int zero_stage = 0;

  struct Outcome {
    std::int64_t first = 0;
    std::string sha256;          // of the whole parameters after resume()
    std::vector<double> losses;  // of the steps after it
  };

  Outcome run(std::int64_t steps) const {
    Outcome outcome;
    run_ranks(ranks, [&](Job& job) {
      DeviceMesh mesh(job, layout);
      tiny_gpt::Model model = model_of(resume ? 99 : 5);
      parallelize(*model, mesh, plan_of(kModel, /*is_sequence_parallel=*/false));
      if (precision != "none") model->to(at::kFloat);
      DataParallel parallel(*model, mesh, {.precision = precision, .zero_stage = zero_stage});
      torch::optim::Adam optimizer(parallel.parameters(), optim::AdamOptions(3e-3));
      Checkpoints checkpoints(job, directory, {.every = 10, .resume = resume});
      checkpoints.add("model", model);
      checkpoints.add("optimizer", optimizer);
      checkpoints.add("parallel", parallel);
      const std::int64_t first = checkpoints.resume();
      std::string sha256;
      {
        const auto whole = parallel.gathered();
        sha256 = whole_sha256(*model);
      }
      std::vector<double> losses;
      for (std::int64_t step = first; step < steps;) {
        optimizer.zero_grad();
        auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(step));
        const at::Tensor words =
            at::randint(kModel.vocabulary, {4, kModel.length + 1}, generator, at::kLong)
                .slice(0, mesh.rank("dp"), std::nullopt, mesh.size("dp"));
        const at::Tensor loss =
            model->loss(words.narrow(1, 0, kModel.length), words.narrow(1, 1, kModel.length));
        loss.backward();
        parallel.step(optimizer);
        losses.push_back(parallel.mean(loss.detach()).item<double>());
        checkpoints.save_if_due(++step);
      }
      EXPECT_EQ(checkpoints.finish(), 0);
      if (job.rank() == 0) outcome = {first, sha256, losses};
    });
    return outcome;
  }
};

TEST(CheckpointsOfSplitLayers, GoOnAsOnTheLayoutThatSavedOnAnyOther) {
  const TemporaryFolder folder;
  const auto expected = LayoutRun{folder.file("whole"), "dp=2,tp=2", 4}.run(20);
  for (const auto& [layout, ranks] :
       {std::pair{"dp=2,tp=2", 4}, {"tp=4", 4}, {"dp=4", 4}, {"tp=2", 2}, {"dp=1", 1}}) {
    const std::string parted = folder.file(std::string("run-") + layout);
    LayoutRun{parted, "dp=2,tp=2", 4}.run(10);
    const auto again = LayoutRun{parted, layout, ranks, true}.run(20);
    EXPECT_EQ(again.first, 10) << layout;
    ASSERT_EQ(again.losses.size(), 10u) << layout;
    for (std::size_t i = 0; i < again.losses.size(); ++i)
      EXPECT_NEAR(again.losses[i], expected.losses[10 + i], 1e-9) << layout << ", step " << 10 + i;
    // The bits that are loaded do not depend on the layout.
    static const std::string loaded = again.sha256;
    EXPECT_EQ(again.sha256, loaded) << layout;
  }
}

TEST(CheckpointsOfSplitLayers, OfOneProcessGoOnAmongRanksThatShareLayers) {
  const TemporaryFolder folder;
  const auto expected = LayoutRun{folder.file("whole"), "dp=1", 1}.run(20);
  LayoutRun{folder.file("run"), "dp=1", 1}.run(10);
  const auto again = LayoutRun{folder.file("run"), "tp=2", 2, true}.run(20);
  ASSERT_EQ(again.losses.size(), 10u);
  for (std::size_t i = 0; i < again.losses.size(); ++i)
    EXPECT_NEAR(again.losses[i], expected.losses[10 + i], 1e-9) << "step " << 10 + i;
}

TEST(CheckpointsOfSplitLayers, OfSixteenBitsHaveTheirMastersInPartsToo) {
  const TemporaryFolder folder;
  const LayoutRun first{folder.file("run"), "dp=2,tp=2", 4, false, "o2"};
  first.run(10);
  std::string loaded;
  for (const auto& [layout, ranks] : {std::pair{"dp=2,tp=2", 4}, {"tp=4", 4}, {"dp=1", 1}}) {
    const auto again = LayoutRun{folder.file("run"), layout, ranks, true, "o2"}.run(10);
    EXPECT_EQ(again.first, 10) << layout;
    if (loaded.empty()) loaded = again.sha256;
    EXPECT_EQ(again.sha256, loaded) << layout;
  }
}

TEST(CheckpointsOfSplitLayers, OfDividedStateGoOnOnAnyOtherLayoutAndStage) {
  const TemporaryFolder folder;
  const std::string saved = folder.file("saved");
  const auto expected = LayoutRun{folder.file("whole"), "dp=2,tp=2", 4, false, "none", 1}.run(20);
  LayoutRun{saved, "dp=2,tp=2", 4, false, "none", 1}.run(10);
  std::string loaded;
  for (const auto& [layout, ranks, zero_stage] : {std::tuple{"dp=2,tp=2", 4, 1},
                                                  {"dp=2,tp=2", 4, 3},
                                                  {"dp=4", 4, 3},
                                                  {"tp=4", 4, 0},
                                                  {"dp=3", 3, 2},
                                                  {"dp=1", 1, 0}}) {
    const std::string again_in = folder.file(c10::str("run-", layout, "-", zero_stage));
    std::filesystem::copy(saved, again_in, std::filesystem::copy_options::recursive);
    const auto again = LayoutRun{again_in, layout, ranks, true, "none", zero_stage}.run(20);
    EXPECT_EQ(again.first, 10) << layout;
    if (loaded.empty()) loaded = again.sha256;
    EXPECT_EQ(again.sha256, loaded) << layout << ", zero_stage " << zero_stage;
    if (ranks == 3) continue;  // its replicas have other batches
    ASSERT_EQ(again.losses.size(), 10u) << layout;
    for (std::size_t i = 0; i < again.losses.size(); ++i)
      EXPECT_NEAR(again.losses[i], expected.losses[10 + i], 1e-9)
          << layout << ", zero_stage " << zero_stage << ", step " << 10 + i;
  }
}

TEST(CheckpointsOfSplitLayers, EachPartIsWrittenOnceAndMakesUpItsTensor) {
  const TemporaryFolder folder;
  LayoutRun{folder.file("run"), "dp=2,tp=4", 8}.run(10);
  SystemDisk disk;
  const auto manifest = checkpoint::read_manifest(disk, folder.file("run/step-00000010")).value();
  std::size_t elements = 0;
  std::map<std::string, std::vector<checkpoint::StoredPiece>> pieces;
  for (const auto& item : manifest.items) {
    if (item.name != "model") continue;
    for (const auto& tensor : item.tensors) {
      elements += *checkpoint::elements_of(tensor.shape);
      pieces[tensor.name] = tensor.pieces;
    }
  }
  EXPECT_EQ(pieces.at("embedding.weight").size(), 4u);
  EXPECT_EQ(pieces.at("blocks.0.key.weight").size(), 2u);
  EXPECT_EQ(pieces.at("blocks.0.down.weight").at(1).box.offset[1], 16u);
  EXPECT_EQ(pieces.at("blocks.0.down.bias").size(), 1u);
  std::size_t whole = 0;
  const auto model = model_of(5);
  for (const auto& parameter : model->parameters())
    whole += static_cast<std::size_t>(parameter.numel());
  EXPECT_EQ(elements, whole);
}

}  // namespace
}  // namespace paceline
