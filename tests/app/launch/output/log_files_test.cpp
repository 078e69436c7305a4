#include "paceline/app/launch/output/log_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace paceline::launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(LogFiles, HoldWhatTheMasksSay) {
  const test::TemporaryFolder folder;
  LogFiles files({.folder = folder.path() / "new", .redirects = mask("2"), .tees = mask("0:1")});
  files.begin(1);
  EXPECT_TRUE(files.shows(0, false));
  EXPECT_FALSE(files.shows(0, true)) << "redirected";
  EXPECT_EQ(files.write(0, false, "out\n"), "");
  EXPECT_EQ(files.write(0, true, "err\n"), "");
  EXPECT_EQ(files.write(1, false, "only on the terminal\n"), "");
  EXPECT_EQ(text_of(files.path(0)), "out\nerr\n");
  EXPECT_FALSE(std::filesystem::exists(files.path(1)));
  EXPECT_FALSE(files.have_everything()) << "no stdout of rank 1";
  EXPECT_THROW(LogFiles({.folder = "/proc/none"}), Error);
}

TEST(LogFiles, NoRunAndNoGenerationWritesIntoTheFolderOfAnother) {
  const test::TemporaryFolder folder;
  LogFiles first({.folder = folder.path()}), second({.folder = folder.path()});
  first.begin(1);
  first.write(0, false, "first\n");
  const std::string path = first.path(0);
  second.begin(1);  // in the same second, most likely
  second.write(0, false, "second\n");
  EXPECT_EQ(text_of(folder.path() / "latest" / "rank_0.log"), "second\n");
  first.begin(2);
  first.write(0, false, "restarted\n");
  EXPECT_EQ(text_of(folder.path() / "latest" / "rank_0.log"), "restarted\n");
  EXPECT_EQ(text_of(path), "first\n");
  EXPECT_EQ(text_of(second.path(0)), "second\n");
}

TEST(LogFiles, AFileThatCannotBeWrittenIsToldOnceAndItsLinesComeBack) {
  const test::TemporaryFolder folder;
  LogFiles files({.folder = folder.path()});
  files.begin(1);
  EXPECT_TRUE(files.have_everything());
  std::filesystem::create_symlink("/dev/full", files.path(0));
  EXPECT_EQ(files.write(0, false, "one\ntwo\n"), "one\ntwo\n");
  EXPECT_EQ(files.write(0, false, "three\n"), "three\n");
  EXPECT_FALSE(files.have_everything());
  const std::string told = files.take_troubles();
  EXPECT_THAT(told, AllOf(HasSubstr(files.path(0)), HasSubstr("No space left on device")));
  EXPECT_EQ(std::ranges::count(told, '\n'), 1);
  EXPECT_EQ(files.write(1, false, "another rank's\n"), "");
  EXPECT_EQ(files.take_troubles(), "");
}

TEST(LogFiles, AFileThatCannotBeOpenedIsToldWithItsReason) {
  const test::TemporaryFolder folder;
  LogFiles files({.folder = folder.path()});
  files.begin(1);
  std::filesystem::create_directory(files.path(0));
  EXPECT_EQ(files.write(0, false, "one\n"), "one\n");
  EXPECT_THAT(files.take_troubles(), AllOf(HasSubstr(files.path(0)), HasSubstr("Is a directory")));
}

TEST(LogFiles, ARestartGoesOnWhereItsFolderCannotBeMadeAndItsLinesComeBack) {
  const test::TemporaryFolder folder;
  const std::filesystem::path logs = folder.path() / "logs";
  LogFiles files({.folder = logs});
  files.begin(1);
  std::filesystem::remove_all(logs);
  std::ofstream(logs) << "no folder any more";
  files.begin(2);
  const std::string told = files.take_troubles();
  EXPECT_THAT(told, AllOf(HasSubstr(logs.native()), HasSubstr("Not a directory"),
                          HasSubstr("printed here")));
  EXPECT_EQ(std::ranges::count(told, '\n'), 1);
  EXPECT_EQ(files.write(0, false, "one\n"), "one\n");
  EXPECT_EQ(files.write(1, true, "two\n"), "two\n");
  files.write_launchers("a text\n");
  files.write_verdict("{}\n");
  EXPECT_EQ(files.take_troubles(), "") << "it was told once";
  EXPECT_FALSE(files.have_everything());
  EXPECT_TRUE(files.shows(0, false));

  std::filesystem::remove(logs);
  std::filesystem::create_directory(logs);
  files.begin(3);
  EXPECT_EQ(files.write(0, false, "again\n"), "");
  EXPECT_EQ(text_of(logs / "latest" / "rank_0.log"), "again\n");
  EXPECT_TRUE(files.have_everything());
}

}  // namespace
}  // namespace paceline::launch
