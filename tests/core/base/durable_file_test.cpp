#include "paceline/core/base/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "paceline/core/base/result.h"
#include "paceline/core/base/seed.h"
#include "tests/support/crash_disk.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class DurableFiles : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  const std::string folder_ = ::testing::TempDir() + "durable_file_test";
  const std::string path_ = folder_ + "/result";
};

TEST_F(DurableFiles, AppearWithTheirLastByte) {
  DurableFile file("result", path_);
  EXPECT_FALSE(fs::exists(path_));
  file.commit("all");
  EXPECT_EQ(text_of(path_), "all");
  EXPECT_EQ(files(), 1U);
}

TEST_F(DurableFiles, LeaveTheFormerOneWhenTheWorkFails) {
  std::ofstream(path_) << "former";
  { const DurableFile file("result", path_); }
  EXPECT_EQ(text_of(path_), "former");
  EXPECT_EQ(files(), 1U);
}

TEST_F(DurableFiles, ReplaceTheFormerOne) {
  std::ofstream(path_) << "the former one, which was longer";
  DurableFile("result", path_).commit("new");
  EXPECT_EQ(text_of(path_), "new");
}

TEST_F(DurableFiles, CanBeAskedForBeforeTheWork) {
  std::ofstream(path_) << "former";
  check_may_be_written("result", path_);
  EXPECT_EQ(text_of(path_), "former");
  EXPECT_EQ(files(), 1U);
  const std::string missing = folder_ + "/missing/result";
  try {
    check_may_be_written("result", missing);
    FAIL() << "a folder that is missing";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("cannot write the result " + missing),
                      HasSubstr("; name a file in a folder that exists and can be written")));
  }
}

TEST_F(DurableFiles, TellAtOnceThatTheyCannotBeWritten) {
  try {
    const DurableFile file("result", folder_ + "/missing/result");
    FAIL() << "there is no such folder";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::io);
    EXPECT_THAT(error.what(), HasSubstr("result"));
  }
}

TEST_F(DurableFiles, LeaveADeviceADevice) {
  DurableFile("result", "/dev/null").commit("bytes");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(DurableFiles, AreTheOldOnesOrTheNewOnesWheneverTheMachineStops) {
  test::CrashDisk disk;
  disk.make_directory("d").value();
  disk.sync_directory("").value();
  DurableFile("result", "d/result", disk).commit("old");
  const std::size_t before = disk.operations();
  DurableFile("result", "d/result", disk).commit("new");
  SeededNumbers numbers(test::seed(1));
  std::set<std::string> seen;
  for (std::size_t count = before; count <= disk.operations(); ++count) {
    for (int subset = 0; subset < 50; ++subset) {
      const auto tree = disk.crashed(count, [&] { return numbers.below(2) == 0; }).tree();
      ASSERT_TRUE(tree.contains("d/result")) << "after " << count << " operations";
      seen.insert(tree.at("d/result"));
    }
  }
  EXPECT_EQ(seen, (std::set<std::string>{"old", "new"}));
  EXPECT_EQ(disk.crashed(disk.operations(), [] { return false; }).tree().at("d/result"), "new");
}

}  // namespace
}  // namespace paceline
