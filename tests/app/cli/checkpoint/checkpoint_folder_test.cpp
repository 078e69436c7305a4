#include "paceline/app/cli/checkpoint/checkpoint_folder.h"

#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

std::string refusal(Disk& disk, const std::string& path) {
  try {
    steps_in(disk, path);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    return error.what();
  }
  return "accepted";
}

TEST(CheckpointFolder, FindsTheStepsOfARunOrTheOneThatIsNamed) {
  test::TemporaryFolder folder;
  SystemDisk disk;
  for (const std::uint64_t step : {300, 100, 200}) {
    checkpoint::CheckpointDirectory directory(disk, folder.path());
    directory.begin(step).value();
    directory.commit({.step = step, .world_size = 1}).value();
  }
  const auto all = steps_in(disk, folder.file(""));
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].step, 100U);
  EXPECT_EQ(step_in(disk, folder.path()).step, 300U);
  EXPECT_EQ(step_in(disk, folder.file("step-00000200/")).step, 200U);
  EXPECT_EQ(manifest_of(disk, all[1]).step, 200U);
}

TEST(CheckpointFolder, TellsWhatToGiveWhereThereIsNone) {
  test::TemporaryFolder folder;
  SystemDisk disk;
  EXPECT_THAT(refusal(disk, folder.file("none")), HasSubstr("missing or empty"));
  disk.make_directory(folder.file("other")).value();
  EXPECT_THAT(refusal(disk, folder.path()), HasSubstr("holds no checkpoint"));
  EXPECT_THAT(refusal(disk, folder.path()), HasSubstr("/step-00000400"));
}

}  // namespace
}  // namespace paceline::cli
