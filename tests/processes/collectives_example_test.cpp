// The example that the guides quote. Runs collectives.
#ifdef PACELINE_WITH_TORCH
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

TEST(CollectivesExample, TellsWhatAllRanksBrought) {
  const TemporaryFolder folder;
  const std::string board = folder.file("board");
  Process run(paceline_run({"-n", "3"}, {binary("collectives"), board}));
  ASSERT_EQ(exit_code(run.wait(Deadline::in(30s))), 0) << run.error();
  for (const char* line : {"[0] 303 samples in 4.5 s", "[0] average 1.0",
                           "[0] seed=7 width=64, worker++", "[0] noted: step 7 of rank 2"})
    EXPECT_THAT(run.output(), testing::HasSubstr(line));
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(board)) files += file.file_size() > 0;
  EXPECT_EQ(files, 1) << "rank 0 alone writes the curve";
}

}  // namespace
}  // namespace paceline::test
#endif
