#include "paceline/core/observe/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "paceline/core/base/result.h"

namespace paceline::observe {
namespace {

using ::testing::HasSubstr;

TEST(OutputFile, HoldsEachPieceAtOnceAndNothingOfBefore) {
  const std::string path = testing::TempDir() + "paceline_output_file";
  std::ofstream(path) << "of before, and longer";
  {
    OutputFile file("trace file", path);
    for (const char* text : {"one", "onetwo"}) {
      file.write(std::string(text).substr(std::string(text).size() - 3));
      std::ostringstream now;
      now << std::ifstream(path).rdbuf();
      EXPECT_EQ(now.str(), text);
    }
  }
  std::filesystem::remove(path);
}

TEST(OutputFile, AFullDiskAndAFolderThatIsNotThereAreToldWithTheFilesName) {
  try {
    OutputFile("trace file", "/dev/full").write("x");
    FAIL() << "the disk was full";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::io);
    EXPECT_THAT(error.what(), HasSubstr("trace file /dev/full"));
  }
  try {
    const OutputFile file("trace file", "/no/such/folder/t");
    FAIL() << "there is no such folder";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/no/such/folder/t"));
    EXPECT_THAT(error.what(), HasSubstr("Name a file in a folder that exists"));
  }
}

}  // namespace
}  // namespace paceline::observe
