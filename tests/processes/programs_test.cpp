// `paceline programs` as a user meets it: its output, its files, its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"

namespace paceline::test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Finished programs(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {binary("paceline"), "programs"});
  return run({.command = arguments}, Deadline::in(60s));
}

TEST(Programs, ListsTheCatalogueAsATableOrAsJson) {
  const auto plain = programs({});
  EXPECT_EQ(plain.exit_code, 0) << plain.error;
  EXPECT_THAT(plain.output, StartsWith("OPERATION"));
  EXPECT_EQ(programs({"list"}).output, plain.output);
  const auto listed = programs({"--operation", "all_reduce", "--ranks", "13", "--json", "-"});
  EXPECT_EQ(listed.exit_code, 0) << listed.error;
  for (const auto& entry : nlohmann::json::parse(listed.output)) {
    EXPECT_EQ(entry["operation"], "all_reduce");
    EXPECT_EQ(entry["ranks"], 13);
  }
}

TEST(Programs, ShowsARanksSteps) {
  const auto result =
      programs({"show", "binomial", "--operation", "all_reduce", "--ranks", "3", "--rank", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output, EndsWith("\n\nround 0: send to 0: input(0)\n"
                                      "round 1: recv from 0: output(0)\n"));
}

TEST(Programs, ListsAndShowsMixingGraphs) {
  const auto listed = programs({"--operation", "neighbours", "--ranks", "16", "--json", "-"});
  EXPECT_EQ(listed.exit_code, 0) << listed.error;
  EXPECT_EQ(nlohmann::json::parse(listed.output).size(), 5u);
  const std::string file = ::testing::TempDir() + "paceline_programs.edges";
  std::ofstream(file) << "0 1\n1 2  # a path of three ranks\n";
  const auto shown = programs({"show", "@" + file, "--rank", "0"});
  EXPECT_EQ(shown.exit_code, 0) << shown.error;
  EXPECT_THAT(shown.output, EndsWith("\nrank 0: x0 = 0.6667 x0 + 0.3333 x1\n\n"
                                     "round 0: send to 1: input(0)\n"
                                     "         recv from 1: output(1)\n"));
  const auto proven = programs({"verify", "--algorithm", "@" + file, "--ranks", "1..8"});
  EXPECT_EQ(proven.output, "1 passed, 0 failed\n") << proven.error;
  std::filesystem::remove(file);
}

TEST(Programs, DrawsTheSamePictureToAFileAndToStdout) {
  const std::string file = ::testing::TempDir() + "paceline_programs.svg";
  const auto to_file = programs({"show", "ring", "--operation", "all_reduce", "--svg", file});
  EXPECT_EQ(to_file.exit_code, 0) << to_file.error;
  const auto to_stdout = programs({"show", "ring", "--operation", "all_reduce", "--svg", "-"});
  EXPECT_THAT(to_stdout.output, StartsWith("<svg "));
  std::ostringstream written;
  written << std::ifstream(file).rdbuf();
  EXPECT_EQ(written.str(), to_stdout.output);
  std::filesystem::remove(file);
}

TEST(Programs, VerifyEndsWithWhatPassedAndFailed) {
  const auto result = programs({"verify", "--ranks", "1..5", "--operation", "all_gather"});
  EXPECT_EQ(result.exit_code, 0) << result.output << result.error;
  EXPECT_THAT(result.output, EndsWith(" passed, 0 failed\n"));
  EXPECT_THAT(result.error, IsEmpty()) << "progress is for terminals";
}

TEST(Programs, HelpOfEachPartNamesItsOptions) {
  EXPECT_THAT(programs({"--help"}).output, HasSubstr("verify"));
  EXPECT_THAT(programs({"show", "--help"}).output, HasSubstr("Usage: paceline programs show"));
  EXPECT_THAT(programs({"verify", "--help"}).output, HasSubstr("--algorithm NAME"));
}

TEST(Programs, WrongUseEndsWithTwoAndTheRemedy) {
  const auto result = programs({"show", "rign"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.error, HasSubstr("did you mean ring?"));
  EXPECT_THAT(result.output, IsEmpty());
}

}  // namespace
}  // namespace paceline::test
