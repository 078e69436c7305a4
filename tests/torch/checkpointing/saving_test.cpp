#include "paceline/torch/checkpointing/saving.h"

#include <fstream>

#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

TEST(Saving, TheNewestAndThoseOfEveryNthStepStay) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Job& job) {
    Checkpoints checkpoints(job, folder.file("run"), {.every = 2, .keep_last = 2, .keep_every = 6});
    std::int64_t count = 7;
    checkpoints.add("mine", [&](CheckpointFields& f) { f("count", count); });
    for (std::int64_t step = checkpoints.resume(); step < 21;) checkpoints.save_if_due(++step);
    EXPECT_EQ(checkpoints.finish(), 0);
  });
  EXPECT_EQ(names_in(folder.file("run")),
            (std::vector<std::string>{".lock", "step-00000006", "step-00000012", "step-00000018",
                                      "step-00000020"}));
}

TEST(Saving, ReplicasThatDifferAreNotSaved) {
  const TemporaryFolder folder;
  EXPECT_THAT(failure_of([&] {
                run_ranks(2, [&](Job& job) {
                  nn::Linear model(3, 3);
                  DataParallel data_parallel(model, job);
                  Checkpoints checkpoints(job, folder.file("run"));
                  checkpoints.add("model", model);
                  checkpoints.resume();
                  if (job.rank() == 1) model->bias.detach().add_(1);
                  checkpoints.save(1);
                });
              }),
              HasSubstr("'model/bias'"));
  EXPECT_EQ(names_in(folder.file("run")), std::vector<std::string>{".lock"});
}

TEST(Saving, ASaveThatFailsLeavesTheOneBeforeAndTheNextOneWorks) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Job& job) {
    const std::string run = folder.file("run");
    std::int64_t count = 0;
    nn::Linear model(8, 8);
    DataParallel data_parallel(model, job);
    Checkpoints checkpoints(job, run);
    checkpoints.add("model", model);
    checkpoints.add("mine", [&](CheckpointFields& f) { f("count", count); });
    checkpoints.resume();
    EXPECT_TRUE(checkpoints.save(1));
    // A file lies where the directory of the save should be made.
    if (job.rank() == 0) std::ofstream(run + "/.saving-00000002") << "in the way";
    job.world().barrier().wait();
    EXPECT_FALSE(checkpoints.save(2));
    EXPECT_TRUE(fs::exists(run + "/step-00000001"));
    if (job.rank() == 0) fs::remove(run + "/.saving-00000002");
    job.world().barrier().wait();
    EXPECT_TRUE(checkpoints.save(3));
  });
  EXPECT_EQ(names_in(folder.file("run")),
            (std::vector<std::string>{".lock", "step-00000001", "step-00000003"}));
}

}  // namespace
}  // namespace paceline
