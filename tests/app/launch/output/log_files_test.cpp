#include "paceline/app/launch/output/log_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace paceline::launch {
namespace {

StreamMask mask(const char* text) {
  return StreamMask::parse("--tee", text).value();
}

TEST(StreamMask, IsTorchruns) {
  EXPECT_TRUE(mask("3").has(5, false) && mask("3").has(5, true));
  EXPECT_TRUE(mask("1").has(0, false) && !mask("1").has(0, true));
  EXPECT_FALSE(mask("0").has(0, false) || mask("0").has(0, true));
  const StreamMask by_rank = mask("0:1,2:2");
  EXPECT_TRUE(by_rank.has(0, false) && !by_rank.has(0, true) && by_rank.has(2, true));
  EXPECT_FALSE(by_rank.has(1, false) || by_rank.has(1, true));
  for (const char* wrong : {"", "4", "-1", "x", "0:", ":1", "0:4", "0:1,1", "0:1;1:1"}) {
    EXPECT_FALSE(StreamMask::parse("--tee", wrong)) << wrong;
  }
}

TEST(LogFiles, HoldWhatTheMasksSay) {
  const test::TemporaryFolder folder;
  {
    LogFiles files({.folder = folder.path() / "new", .redirects = mask("2"), .tees = mask("0:1")});
    EXPECT_TRUE(files.shows(0, false));
    EXPECT_FALSE(files.shows(0, true)) << "redirected";
    files.write(0, false, "out\n");
    files.write(0, true, "err\n");
    files.write(1, false, "only on the terminal\n");
    std::ifstream written(files.path(0));
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(written), {}), "out\nerr\n");
    EXPECT_FALSE(std::filesystem::exists(files.path(1)));
  }
  EXPECT_THROW(LogFiles({.folder = "/proc/none"}), Error);
}

}  // namespace
}  // namespace paceline::launch
