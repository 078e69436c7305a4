// Checkpoints of replicas that divide their state (zero_stage).
#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

std::unique_ptr<optim::Optimizer> adam_over(std::vector<at::Tensor> parameters) {
  return std::make_unique<optim::Adam>(std::move(parameters), optim::AdamOptions(0.01));
}

Training of_stage(int zero_stage, at::ScalarType type = at::kFloat) {
  Training training{.type = type, .optimizer = adam_over};
  training.parallel.zero_stage = zero_stage;
  return training;
}

TEST(CheckpointsOfDividedState, GoOnWithTheSameBitsByEveryOtherStage) {
  const TemporaryFolder folder;
  const std::string expected = of_stage(0).in(folder.file("whole")).run(12);
  for (int before = 0; before <= 3; ++before) {
    const std::string saved = folder.file(c10::str("saved-", before));
    of_stage(before).in(saved).run(8);
    for (int after = 0; after <= 3; ++after) {
      const std::string again = folder.file(c10::str("again-", before, "-", after));
      fs::copy(saved, again, fs::copy_options::recursive);
      EXPECT_EQ(of_stage(after).in(again).resumed().run(12), expected)
          << "saved by stage " << before << ", resumed by stage " << after;
    }
  }
}

TEST(CheckpointsOfDividedState, GoOnFromOptimizersThatKnowSomeParametersAlone) {
  const TemporaryFolder folder;
  // Each of so many ranks has pieces of few parameters, and another number of them goes on.
  const auto digest = [&](int before, int after) {
    Training training = of_stage(before).in(folder.file(c10::str("run-", before, "-", after)));
    training.ranks = 5;
    training.run(8);
    Training other = training.resumed();
    other.ranks = 3;
    other.parallel.zero_stage = after;
    return other.run(12);
  };
  EXPECT_EQ(digest(2, 3), digest(0, 0));
}

// Each rank writes its own pieces, so that the files of all are about as long.
TEST(CheckpointsOfDividedState, HoldEachElementOnceInThePiecesOfItsOwners) {
  const TemporaryFolder folder;
  Training training = of_stage(3).in(folder.file("run"));
  training.ranks = 4;
  training.run(4);
  SystemDisk disk;
  const std::string step = folder.file("run/step-00000004");
  const auto manifest = checkpoint::read_manifest(disk, step).value();
  std::map<std::string, std::size_t> pieces;
  for (const auto& item : manifest.items) {
    for (const auto& tensor : item.tensors) {
      pieces[item.name] += tensor.pieces.size();
      std::vector<checkpoint::Box> boxes;
      for (const auto& piece : tensor.pieces) boxes.push_back(piece.box);
      EXPECT_TRUE(checkpoint::tile(tensor.shape, boxes)) << item.name << '/' << tensor.name;
    }
  }
  const Net net(at::kFloat);
  EXPECT_GT(pieces.at("model"), net.parameters().size()) << "parameters that two ranks divide";
  EXPECT_GE(pieces.at("optimizer"), 2 * net.parameters().size());
}

}  // namespace
}  // namespace paceline
