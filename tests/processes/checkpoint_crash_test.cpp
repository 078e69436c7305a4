// A save of two ranks is killed at each of its system calls, by strace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "paceline/core/checkpoint/checkpoint.h"
#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

constexpr int kKilled = 137;

std::vector<std::uint64_t> whole_steps(const std::string& run) {
  SystemDisk disk;
  const checkpoint::CheckpointDirectory directory(disk, run);
  const std::vector<std::uint64_t> steps = directory.steps().value();
  for (const std::uint64_t step : steps) {
    const auto manifest = checkpoint::read_manifest(disk, directory.path_of(step));
    EXPECT_TRUE(manifest) << manifest.error().what;
    if (!manifest) continue;
    for (const auto& damage : checkpoint::damages(disk, directory.path_of(step), manifest.value()))
      ADD_FAILURE() << "step " << step << ": " << damage.file << ": " << damage.what;
  }
  return steps;
}

int save(const std::string& run, int step, const std::vector<std::string>& under = {}) {
  std::vector<std::string> command = under;
  command.insert(command.end(), {binary("checkpoint_saver"), run, std::to_string(step)});
  const Finished finished = test::run({.command = command}, Deadline::in(30s));
  EXPECT_TRUE(finished.exit_code == 0 || finished.exit_code == kKilled)
      << finished.exit_code << finished.error;
  return finished.exit_code;
}

TEST(CheckpointCrash, AKillAtAnySystemCallLeavesTheOldStepOrTheNewOneAndTheNextSaveWorks) {
  std::vector<std::string> calls = {"fsync", "fallocate", "renameat2", "mkdir", "unlink", "rmdir"};
  if (is_nightly())
    calls.insert(calls.end(), {"write", "openat", "close", "getdents64", "newfstatat"});
  int kills = 0, news = 0;
  for (const std::string& call : calls) {
    for (int count = 1;; ++count) {
      SCOPED_TRACE(call + " number " + std::to_string(count));
      const TemporaryFolder folder;
      const std::string run = folder.path();
      ASSERT_EQ(save(run, 1), 0);
      const int code = save(run, 2,
                            {"strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e",
                             "inject=" + call + ":signal=KILL:when=" + std::to_string(count)});
      const auto steps = whole_steps(run);
      ASSERT_FALSE(steps.empty());
      ASSERT_TRUE(steps.back() == 2 || code == kKilled);
      if (code == 0) break;
      ++kills;
      news += steps.back() == 2;
      ASSERT_EQ(save(run, 3), 0);
      EXPECT_EQ(whole_steps(run), std::vector<std::uint64_t>{3});
      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(run), {}), 1) << "a rest is left";
    }
  }
  EXPECT_GT(kills, 15);
  EXPECT_GT(news, 0);
  EXPECT_LT(news, kills);
}

}  // namespace
}  // namespace paceline::test
