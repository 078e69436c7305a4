// Random numbers in checkpoints.
#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

TEST(RandomPart, DropoutDrawsTheNumbersThatItWouldHaveDrawn) {
  const TemporaryFolder folder;
  at::Tensor expected;
  run_ranks(1, [&](Job& job) {
    torch::manual_seed(5);
    Checkpoints checkpoints(job, folder.file("run"));
    checkpoints.resume();
    at::rand(3);
    EXPECT_TRUE(checkpoints.save(1));
    expected = at::dropout(at::ones(100), 0.5, true);
  });
  run_ranks(1, [&](Job& job) {
    torch::manual_seed(99);
    Checkpoints checkpoints(job, folder.file("run"), {.resume = true});
    EXPECT_EQ(checkpoints.resume(), 1);
    EXPECT_TRUE(at::equal(at::dropout(at::ones(100), 0.5, true), expected));
  });
}

}  // namespace
}  // namespace paceline
