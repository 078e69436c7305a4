// Lines of many ranks: prefixed, whole, complete; a slow or closed reader neither hangs nor
// silently kills a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "tests/processes/programs/checked_line.h"
#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using ::testing::HasSubstr;

// The lines of `text` without that of the launcher, which says that the probes never joined.
std::vector<std::string> lines_of_ranks(const std::string& text) {
  auto lines = lines_of(text);
  std::erase_if(lines, [](const std::string& line) {
    return line.starts_with("paceline: no process joined the run");
  });
  return lines;
}

// Checks that `text` has lines 0..count-1 of each rank, in order and whole.
void expect_all_lines(const std::string& text, int ranks, int count) {
  std::map<int, int> next;
  for (const auto& line : lines_of_ranks(text)) {
    int prefix = -1, rank = -1, index = -1;
    ASSERT_EQ(std::sscanf(line.c_str(), "[%d] %d %d ", &prefix, &rank, &index), 3)
        << line.substr(0, 100);
    ASSERT_EQ(prefix, rank);
    ASSERT_EQ(index, next[rank]++) << "rank " << rank;
    ASSERT_TRUE(is_whole(std::string_view(line).substr(line.find("] ") + 2)))
        << line.substr(0, 100);
  }
  for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(next[rank], count) << "rank " << rank;
}

TEST(RunOutput, NoLineOfFourRanksIsSplitOrLost) {
  const auto result = run(run_probe(4, {"lines:3000"}));
  EXPECT_EQ(result.exit_code, 0);
  expect_all_lines(result.output, 4, 3000);
  expect_all_lines(result.error, 4, 3000);
}

TEST(RunOutput, LinesStayWholeWhenStdoutAndStderrAreOneFile) {
  auto options = run_probe(3, {"lines:500"});
  std::string command = "exec \"$0\" \"$@\" 2>&1";
  options.command.insert(options.command.begin(), {"bash", "-c", command});
  const auto lines = lines_of_ranks(run(options).output);
  EXPECT_EQ(lines.size(), 3U * 500U * 2U);
  for (const auto& line : lines)
    ASSERT_TRUE(is_whole(std::string_view(line).substr(line.find("] ") + 2)));
}

TEST(RunOutput, OneRankIsPrefixedTooUnlessAskedOtherwise) {
  EXPECT_EQ(run(paceline_run({"-n", "1"}, {"echo", "hello"})).output, "[0] hello\n");
  EXPECT_EQ(run(paceline_run({"-n", "1", "--no-prefix"}, {"echo", "hello"})).output, "hello\n");
}

TEST(RunOutput, TheLastLineGetsItsNewlineAndStreamsStayApart) {
  const auto result =
      run(paceline_run({"-n", "1"}, {"bash", "-c", "printf out; printf 'a\\n\\nb' >&2"}));
  EXPECT_EQ(result.output, "[0] out\n");
  EXPECT_EQ(result.error, "[0] a\n[0] \n[0] b\n");
}

TEST(RunOutput, AnEndlessLineComesInMarkedPieces) {
  const auto result = run(run_probe(1, {"text:17000000"}));
  const auto lines = lines_of(result.output);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0].substr(lines[0].size() - 40), HasSubstr("this line goes on]"));
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), 'x'), 17'000'000);
}

TEST(RunOutput, AReaderThatWentAwayEndsTheRunAndSaysSo) {
  Process launcher(run_probe(2, {"lines:100000"}));
  ASSERT_TRUE(launcher.wait_for_output("\n", Deadline::in(10s)));
  launcher.close_output();
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(10s))), 141);
  EXPECT_THAT(launcher.error(), HasSubstr("the reader of its output went away"));
}

TEST(RunOutput, AReaderThatPausesGetsEverything) {
  Process launcher(run_probe(2, {"lines:2000"}));
  // Meanwhile the first one is not read: its pipes fill, and all wait.
  run(run_probe(1, {"lines:10"}));
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(20s))), 0);
  expect_all_lines(launcher.output(), 2, 2000);
}

TEST(RunOutput, AReaderThatNeverReadsDoesNotKeepAFailedRun) {
  Process launcher(run_probe(2, {"0=lines:100000", "exit:3"}));
  EXPECT_TRUE(launcher.ends_unread(Deadline::in(10s)));
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(1s))), 3);
}

TEST(RunOutput, AFullDiskEndsTheRunAndSaysSo) {
  auto options = run_probe(1, {"lines:100000"});
  options.command.insert(options.command.begin(), {"bash", "-c", "exec \"$0\" \"$@\" >/dev/full"});
  const auto result = run(options);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("its output cannot be written: No space left on device"));
}

TEST(RunOutput, ClosedStandardDescriptorsAreNoHarm) {
  auto options = paceline_run({"-n", "2"}, {"echo", "hello"});
  options.command.insert(options.command.begin(), {"bash", "-c", "exec \"$0\" \"$@\" >&- <&-"});
  EXPECT_EQ(run(options).exit_code, 0);
}

TEST(RunOutput, ColourIsForTerminalsWithoutNoColor) {
  for (const bool no_color : {false, true}) {
    auto options = paceline_run({"-n", "1"}, {"echo", "hello"});
    options.new_terminal = true;
    if (no_color) options.environment["NO_COLOR"] = "1";
    Process launcher(options);
    EXPECT_EQ(exit_code(launcher.wait(Deadline::in(10s))), 0);
    EXPECT_EQ(launcher.output(), no_color ? "[0] hello\r\n" : "\033[36m[0]\033[0m hello\r\n");
  }
}

// The lines of each rank that dies by SIGKILL, whose printf had returned, are there, in order.
void expect_what_was_printed(const std::string& output, const TemporaryFolder& folder) {
  std::map<int, int> next;
  for (std::string line : lines_of(output)) {
    if (line.ends_with('\r')) line.pop_back();
    int prefix = -1, rank = -1, index = -1;
    if (std::sscanf(line.c_str(), "[%d] %d %d ", &prefix, &rank, &index) != 3) continue;
    ASSERT_EQ(prefix, rank);
    ASSERT_EQ(index, next[rank]++) << "rank " << rank;
    ASSERT_TRUE(is_whole(std::string_view(line).substr(line.find("] ") + 2))) << line;
  }
  for (int rank = 0; rank < 4; ++rank) {
    std::ifstream file(folder.file("rank_" + std::to_string(rank)), std::ios::binary);
    int printed = -1;
    file.read(reinterpret_cast<char*>(&printed), sizeof printed);
    EXPECT_GE(next[rank], printed) << "rank " << rank;
  }
}

TEST(RunOutput, WhatARankHadPrintedBeforeItDiedIsThere) {
  for (int round = 0; round < (is_nightly() ? 100 : 6); ++round) {
    const TemporaryFolder folder;
    auto options = paceline_run(
        {"-n", "4"}, {binary("printer"), std::to_string(seed(50) + 4 * round), folder.path()});
    options.new_terminal = round % 2 == 1;
    options.environment["NO_COLOR"] = "1";
    const auto result = run(options);
    EXPECT_EQ(result.exit_code, 137) << result.error;
    expect_what_was_printed(result.output, folder);
  }
}

TEST(RunOutput, AFullDiskIsNoHarmWhereAllOfItIsInLogFiles) {
  const TemporaryFolder folder;
  auto options = run_probe(2, {"lines:2000"}, {"--log-dir", folder.path()});
  options.command.insert(options.command.begin(), {"bash", "-c", "exec \"$0\" \"$@\" >/dev/full"});
  const auto result = run(options);
  EXPECT_EQ(result.exit_code, 0) << result.error.substr(0, 500);
  EXPECT_THAT(result.error,
              HasSubstr("cannot be written: No space left on device; all of it is in"));
  std::ifstream file(folder.file("latest/rank_1.log"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(lines_of(text).size(), 4000U) << "stdout and stderr";
}

TEST(RunOutput, TheVerdictLiesInTheLogFolderAsJson) {
  const TemporaryFolder folder;
  EXPECT_EQ(run(run_probe(3, {"1=exit:3", "wait"}, {"--log-dir", folder.path()})).exit_code, 3);
  std::ifstream file(folder.file("latest/verdict.json"));
  const auto verdict = nlohmann::json::parse(file);
  EXPECT_EQ(verdict["outcome"], "failed");
  EXPECT_EQ(verdict["exit_code"], 3);
  EXPECT_EQ(verdict["first"]["rank"], 1);
  EXPECT_EQ(verdict["first"]["how"], "ended with code 3");
  EXPECT_EQ(verdict["processes"].size(), 3U);
  EXPECT_EQ(verdict["processes"][0]["stopped"], true);
}

TEST(RunOutput, EachLineHasItsTimeIfAskedFor) {
  EXPECT_THAT(run(paceline_run({"-n", "1", "--timestamps"}, {"echo", "hello"})).output,
              ::testing::MatchesRegex("\\[0\\] ....-..-.. ..:..:..[.][0-9][0-9][0-9] hello\n"));
}

}  // namespace
}  // namespace paceline::test
