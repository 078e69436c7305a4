#include "paceline/app/cli/cli.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "paceline/app/cli/commands/subcommand_entries.h"
#include "paceline/core/base/version.h"
#include "tests/support/process.h"

namespace paceline::cli {
namespace {

TEST(Cli, VersionIsThatOfTheProject) {
  // The version is written twice, and here is what keeps it one.
  std::ifstream file(test::source("CMakeLists.txt"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find(fmt::format("project(paceline VERSION {} ", kVersion)), std::string::npos);
}

TEST(Cli, KnowsRun) {
  EXPECT_EQ(catalogue::run().name, "run");
}

TEST(Cli, WrongUseIsTwo) {
  EXPECT_EQ(run_cli({}), 2);
  EXPECT_EQ(run_cli({"nonsense"}), 2);
  EXPECT_EQ(run_cli({"run", "-n", "0", "true"}), 2);
}

}  // namespace
}  // namespace paceline::cli
