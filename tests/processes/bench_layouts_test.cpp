// `paceline bench layouts` as a user runs it: covers paceline/app/cli/commands/bench_layouts.cpp.
// Runs fashion_mnist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Finished bench_layouts(const std::vector<std::string>& words) {
  ProcessOptions options{.command = {binary("paceline"), "bench", "layouts"}};
  options.command.insert(options.command.end(), words.begin(), words.end());
  return run(options, Deadline::in(60s));
}

// A program of a shell's words, to which the last one of its options is the file for metrics.
class FakeProgram {
 public:
  explicit FakeProgram(const std::string& words) {
    std::ofstream(path()) << "#!/bin/bash\nmetrics=\"${@: -1}\"\n" << words << "\n";
    std::filesystem::permissions(path(), std::filesystem::perms::owner_all);
  }
  std::string path() const { return folder_.file("program"); }

 private:
  const TemporaryFolder folder_;
};

constexpr const char* kTellsSummary =
    R"([[ $PACELINE_RANK != 0 ]] || echo '{"event":"summary","train_samples_per_second":5}' >"$metrics")";

TEST(BenchLayouts, EachLayoutHasItsRanksAndStdoutIsForTheTableAlone) {
  const FakeProgram program(std::string(kTellsSummary) +
                            R"(; echo "$PACELINE_RANK of $PACELINE_WORLD_SIZE: $*")");
  const auto done = bench_layouts({"--layouts", "none,dp=2+pp=2", "--batch", "64", "--json", "-",
                                   "--partition", "0,1", "--", program.path()});
  ASSERT_EQ(done.exit_code, 0) << done.error;
  const auto json = nlohmann::json::parse(done.output);
  EXPECT_EQ(json.at("batch"), 64);
  EXPECT_EQ(json.at("layouts").at(1).at("label"), "MPMD");
  EXPECT_EQ(json.at("layouts").at(1).at("samples_per_device"), 32);
  EXPECT_THAT(done.error, AllOf(HasSubstr("0 of 1: --metrics "),
                                HasSubstr("3 of 4: --layout dp=2,pp=2 --partition 0,1 --metrics"),
                                HasSubstr("round 1 of 1")));
}

TEST(BenchLayouts, TheCodeOfTheFirstRunThatFailsIsTheCodeOfAll) {
  const FakeProgram program("[[ $1 != --layout ]] || { echo unknown option $1 >&2; exit 7; }\n" +
                            std::string(kTellsSummary));
  const auto done = bench_layouts({"--layouts", "none,dp=2,pp=2", "--", program.path()});
  EXPECT_EQ(done.exit_code, 7) << done.error;
  EXPECT_THAT(done.error, AllOf(HasSubstr("unknown option --layout"),
                                HasSubstr("dp=2: the program ended with code 7; it must train with "
                                          "--layout dp=2 and --metrics FILE"),
                                Not(HasSubstr("bench layouts: pp=2"))));
  EXPECT_EQ(done.output, "");
}

TEST(BenchLayouts, ARunWithoutASummaryEndsWith1) {
  const FakeProgram writes_nothing(":");
  const auto done = bench_layouts({"--layouts", "none", "--", writes_nothing.path()});
  EXPECT_EQ(done.exit_code, 1) << done.error;
  EXPECT_THAT(done.error, HasSubstr("bench layouts: none: the program has written no file"));
  const FakeProgram tells_a_step(R"(echo '{"event":"step"}' >"$metrics")");
  EXPECT_THAT(bench_layouts({"--layouts", "none", "--", tells_a_step.path()}).error,
              HasSubstr("has no line with \"event\": \"summary\""));
}

TEST(BenchLayouts, WrongUseEndsWith2) {
  const auto expect = [](const std::vector<std::string>& words, const std::string& text) {
    const auto done = bench_layouts(words);
    EXPECT_EQ(done.exit_code, 2) << done.error;
    EXPECT_THAT(done.error, HasSubstr(text));
  };
  expect({}, "no program is given");
  expect({"--layouts", "zp=2", "--", "true"}, "--layouts: zp=2");
  expect({"--rounds", "0", "--", "true"}, "--rounds");
  expect({"--layouts", "none", "--", "/nowhere/program"}, "/nowhere/program");
  expect({"--", "true", "--layout", "dp=2"}, "--layout stands among the program's words");
  expect({"--", "true", "--metrics=m"}, "--metrics stands among");
  expect({"--lay", "none", "--", "true"}, "unknown option --lay");
}

#ifdef PACELINE_WITH_TORCH
TEST(BenchLayouts, BytesOfTheExamplesNetworkAreThoseOfTheFormulas) {
  const auto done =
      bench_layouts({"--layouts", "none,dp=2,pp=2", "--json", "-", "--", binary("fashion_mnist"),
                     "--model", "mlp", "--steps", "7", "--threads", "1", "--test-images", "100"});
  ASSERT_EQ(done.exit_code, 0) << done.error;
  const auto json = nlohmann::json::parse(done.output);
  EXPECT_EQ(json.at("batch"), 128);
  const auto& layouts = json.at("layouts");
  ASSERT_EQ(layouts.size(), 3u);
  for (const char* side : {"formula", "measured"})
    EXPECT_EQ(layouts[1].at("traffic_bytes").at(side), 7'454'760) << side;
  EXPECT_EQ(layouts[2].at("traffic_bytes").at("measured"), 1'048'576);
  EXPECT_EQ(layouts[2].at("storage_bytes").at("measured"), 7'454'760);
  EXPECT_GE(layouts[2].at("balance").at("measured"), 1);
  EXPECT_NEAR(json.at("crossover_batch").at("measured").get<double>(), 910.0, 0.05);
  for (const auto& layout : layouts) EXPECT_GT(layout.at("samples_per_second"), 0);
}
#endif

}  // namespace
}  // namespace paceline::test
