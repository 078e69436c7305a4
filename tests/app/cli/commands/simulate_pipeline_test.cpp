#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/commands/subcommand_entries.h"
#include "paceline/core/base/result.h"
#include "tests/support/temporary_folder.h"

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

std::string written(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(SimulatePipeline, FourRanksAndEightMicroBatchesTakeThePublishedTimes) {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("run.json");
  const std::pair<std::string, double> published[] = {
      {"gpipe", 330}, {"1f1b", 330}, {"interleaved:chunks=2", 285}, {"zero_bubble", 270}};
  for (const auto& [schedule, milliseconds] : published) {
    EXPECT_EQ(catalogue::simulate_pipeline().main({"--schedule", schedule, "--json", file}), 0);
    const auto json = nlohmann::json::parse(written(file));
    EXPECT_NEAR(json.at("makespan_ms").get<double>(), milliseconds, 1e-9) << schedule;
  }
}

TEST(SimulatePipeline, LatencyAndBandwidthMakeItLonger) {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("run.json");
  const Words words = {"--schedule", "gpipe",     "--stages", "2",           "--micro-batches",
                       "1",          "--latency", "1ms",      "--bandwidth", "1gbit",
                       "--message",  "125B",      "--json",   file};
  EXPECT_EQ(catalogue::simulate_pipeline().main(words), 0);
  const auto json = nlohmann::json::parse(written(file));
  EXPECT_NEAR(json.at("makespan_ms").get<double>(), 60 + 2 * 1.001, 1e-9);
}

TEST(SimulatePipeline, ThePictureKeepsTheCommandThatDrawsIt) {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("run.svg");
  EXPECT_EQ(
      catalogue::simulate_pipeline().main({"--stages", "3", "--durations", "1:1:1", "--svg", file}),
      0);
  EXPECT_THAT(written(file),
              HasSubstr("<metadata>paceline simulate pipeline --schedule 1f1b --stages 3 "
                        "--micro-batches 8 --durations 1:1:1 --svg</metadata>"));
}

TEST(SimulatePipeline, WrongUsesAreNamedWithTheirRemedy) {
  const std::pair<Words, std::string> uses[] = {
      {{"--stages", "0"}, "--stages: 0 is too few"},
      {{"--schedule", "2f2b"}, "did you mean 1f1b"},
      {{"--schedule", "pipedream_2bw", "--micro-batches", "2"}, "give at least 3"},
      {{"--latency", "soon"}, "--latency: \"soon\" is not a duration"},
      {{"--bandwidth", "fastgbit"}, "--bandwidth"},
      {{"--json"}, "--json"},
  };
  for (const auto& [arguments, says] : uses) {
    try {
      catalogue::simulate_pipeline().main(arguments);
      ADD_FAILURE() << ::testing::PrintToString(arguments) << " is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::misuse) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(says));
    }
  }
}

}  // namespace
}  // namespace paceline::cli
