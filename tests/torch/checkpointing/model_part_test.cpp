// Models in checkpoints.
#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

TEST(ModelPart, ATiedTensorIsSavedOnceUnderItsFirstName) {
  const TemporaryFolder folder;
  run_ranks(1, [&](Job& job) {
    nn::Sequential model;
    const nn::Linear shared(3, 3);
    model->push_back("b", shared);
    model->push_back("a", shared);
    Checkpoints checkpoints(job, folder.file("run"));
    checkpoints.add("model", model);
    checkpoints.resume();
    EXPECT_TRUE(checkpoints.save(1));
  });
  SystemDisk disk;
  const auto manifest =
      checkpoint::read_manifest(disk, folder.file("run") + "/step-00000001").value();
  std::vector<std::string> names;
  for (const auto& tensor : manifest.items.at(1).tensors) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a.weight", "a.bias"}));
}

TEST(ModelPart, BuffersThatAreEachRanksOwnComeBackToTheirRank) {
  const TemporaryFolder folder;
  for (const bool resume : {false, true}) {
    run_ranks(2, [&](Job& job) {
      nn::Sequential model(nn::Linear(3, 3), nn::BatchNorm1d(3));
      DataParallel data_parallel(model, job, {.buffers = BufferMode::off});
      Checkpoints checkpoints(job, folder.file("run"), {.resume = resume});
      checkpoints.add("model", model);
      checkpoints.add("parallel", data_parallel);
      const at::Tensor mean = model->named_buffers()["1.running_mean"];
      const at::Tensor own = at::full({3}, job.rank() + 1.0);
      if (!resume) {
        checkpoints.resume();
        mean.copy_(own);
        EXPECT_TRUE(checkpoints.save(1));
      } else {
        EXPECT_EQ(checkpoints.resume(), 1);
        EXPECT_TRUE(at::equal(mean, own));
      }
    });
  }
}

}  // namespace
}  // namespace paceline
