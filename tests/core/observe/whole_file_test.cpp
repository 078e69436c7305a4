#include "paceline/core/observe/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "paceline/core/base/result.h"

namespace paceline::observe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class WholeFiles : public ::testing::Test {
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

  const std::string folder_ = ::testing::TempDir() + "whole_file_test";
  const std::string path_ = folder_ + "/result";
};

TEST_F(WholeFiles, AppearWithTheirLastByte) {
  WholeFile file("result", path_);
  EXPECT_FALSE(fs::exists(path_));
  file.commit("all");
  EXPECT_EQ(text_of(path_), "all");
  EXPECT_EQ(files(), 1U);
}

TEST_F(WholeFiles, LeaveTheFormerOneWhenTheWorkFails) {
  std::ofstream(path_) << "former";
  { const WholeFile file("result", path_); }
  EXPECT_EQ(text_of(path_), "former");
  EXPECT_EQ(files(), 1U);
}

TEST_F(WholeFiles, ReplaceTheFormerOne) {
  std::ofstream(path_) << "the former one, which was longer";
  WholeFile("result", path_).commit("new");
  EXPECT_EQ(text_of(path_), "new");
}

TEST_F(WholeFiles, TellAtOnceThatTheyCannotBeWritten) {
  try {
    const WholeFile file("result", folder_ + "/missing/result");
    FAIL() << "there is no such folder";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::io);
    EXPECT_THAT(error.what(), HasSubstr("result"));
  }
}

TEST_F(WholeFiles, LeaveADeviceADevice) {
  WholeFile("result", "/dev/null").commit("bytes");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace paceline::observe
