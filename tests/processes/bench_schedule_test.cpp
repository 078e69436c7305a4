// `paceline bench schedule` as a user runs it: covers paceline/app/cli/commands/bench_schedule.cpp
// and paceline/core/schedule/replay/trial.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Finished bench_schedule(const std::vector<std::string>& words) {
  ProcessOptions options{.command = {binary("paceline"), "bench", "schedule"}};
  options.command.insert(options.command.end(), words.begin(), words.end());
  return run(options, Deadline::in(60s));
}

TEST(BenchSchedule, EveryMethodMovesAllGradientsAndTakesNoLessThanItsComputation) {
  for (const std::string transport : {"shm", "tcp"}) {
    const auto done =
        bench_schedule({"--ranks", "2", "--transport", transport, "--models", "resnet-50",
                        "--divide", "200", "--rho", "1", "--steps", "2", "--json", "-"});
    ASSERT_EQ(done.exit_code, 0) << done.error;
    const json rows = json::parse(done.output);
    ASSERT_EQ(rows.size(), 7u);
    for (const json& row : rows) {
      EXPECT_EQ(row.at("errors"), 0) << row;
      EXPECT_EQ(row.at("transport"), transport);
      EXPECT_GE(row.at("seconds"), row.at("compute_seconds").get<double>() - 1e-6) << row;
      EXPECT_GE(row.at("forecast_seconds"), row.at("bound_seconds").get<double>() - 1e-6) << row;
    }
    EXPECT_EQ(rows.back().at("method"), "general");
    for (const json& row : rows)
      EXPECT_LE(rows.back().at("forecast_seconds"), row.at("forecast_seconds")) << row;
  }
}

TEST(BenchSchedule, WithServersEachMethodAlsoRunsOverThemAndGeneralChooses) {
  const auto done = bench_schedule({"--ranks", "2", "--servers", "1", "--models", "resnet-50",
                                    "--divide", "200", "--rho", "1", "--steps", "1", "--methods",
                                    "priority,general", "--json", "-"});
  ASSERT_EQ(done.exit_code, 0) << done.error;
  std::vector<std::string> paths;
  for (const json& row : json::parse(done.output)) {
    EXPECT_EQ(row.at("errors"), 0) << row;
    EXPECT_EQ(row.at("servers"), 1);
    EXPECT_EQ(row.at("placement"), "colocated");
    const bool is_over_servers =
        row.at("plan").get<std::string>().find(", server") != std::string::npos;
    EXPECT_TRUE(row.at("path") == "both" || is_over_servers == (row.at("path") == "server")) << row;
    paths.push_back(row.at("path"));
  }
  EXPECT_EQ(paths,
            (std::vector<std::string>{"collective", "server", "collective", "server", "both"}));
}

TEST(BenchSchedule, WithKernelsItComputesAndSaysSo) {
  const std::vector<std::string> words = {"--ranks",  "2",   "--models",  "resnet-50",
                                          "--divide", "200", "--steps",   "1",
                                          "--rho",    "1",   "--methods", "barrier,priority"};
  for (const bool computes : {false, true}) {
    auto with_json = words;
    with_json.insert(with_json.end(), {"--json", "-"});
    if (computes) with_json.emplace_back("--compute");
    const auto done = bench_schedule(with_json);
    ASSERT_EQ(done.exit_code, 0) << done.error;
    const json rows = json::parse(done.output);
    ASSERT_EQ(rows.size(), 2u);
    for (const json& row : rows) {
      EXPECT_EQ(row.at("computation"), computes ? "kernels" : "waited");
      EXPECT_EQ(row.at("errors"), 0) << row;
    }
  }
  auto shown = words;
  shown.emplace_back("--compute");
  EXPECT_THAT(bench_schedule(shown).output, HasSubstr("the computation is done by kernels"));
  EXPECT_THAT(bench_schedule(words).output, HasSubstr("waiting replaces the computation"));
}

TEST(BenchSchedule, EachCodecGoesWithEachMethodAndMovesFewerBytes) {
  const auto done =
      bench_schedule({"--ranks", "2", "--models", "resnet-50", "--divide", "50", "--rho", "1",
                      "--steps", "1", "--methods", "merged,general", "--compression",
                      "none,fp16,top_k:ratio=0.02,indices=leader", "--json", "-"});
  ASSERT_EQ(done.exit_code, 0) << done.error;
  const json rows = json::parse(done.output);
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[4].at("codec"), "top_k:ratio=0.02,indices=leader");
  for (const std::size_t row : {2u, 4u})
    EXPECT_LT(rows[row].at("transfer_seconds"), rows[row - 2].at("transfer_seconds"));
}

TEST(BenchSchedule, ATraceShowsWhatWasComputedAndSentUnderEachMethod) {
  const std::string path = ::testing::TempDir() + "bench_schedule_test.json";
  const auto done =
      bench_schedule({"--ranks", "2", "--models", "resnet-50", "--divide", "200", "--rho", "1",
                      "--steps", "1", "--methods", "merged,priority", "--trace", path});
  ASSERT_EQ(done.exit_code, 0) << done.error;
  std::ifstream in(path);
  const std::string trace(std::istreambuf_iterator<char>(in), {});
  std::filesystem::remove(path);
  for (const std::string part : {"ResNet-50, merged", "ResNet-50, priority", "\"backward\"",
                                 "for gradient", "all_reduce f32"})
    EXPECT_THAT(trace, HasSubstr(part));
}

TEST(BenchSchedule, APictureShowsEachMethodsLastStepUnderOneAxis) {
  const TemporaryFolder folder;
  const std::string path = folder.file("steps.svg");
  const auto done =
      bench_schedule({"--ranks", "2", "--models", "resnet-50", "--divide", "200", "--rho", "1",
                      "--steps", "2", "--methods", "barrier,merged,priority", "--svg", path});
  ASSERT_EQ(done.exit_code, 0) << done.error;
  std::ifstream in(path);
  const std::string svg(std::istreambuf_iterator<char>(in), {});
  for (const std::string part :
       {"ResNet-50, barrier: this step", "ResNet-50, merged: this step",
        "ResNet-50, priority: this step", "waits for all gradients: ", "backward: ", "forecast: ",
        "message 1 of 1: gradients 1 to 161, ", ">milliseconds<"})
    EXPECT_THAT(svg, HasSubstr(part));
}

TEST(BenchSchedule, WrongUseIsToldOnceAndEndsWith2) {
  const auto expect = [](std::vector<std::string> words, const std::string& text) {
    words.insert(words.begin(), {"--ranks", "2"});
    const auto done = bench_schedule(words);
    EXPECT_EQ(done.exit_code, 2) << done.error;
    EXPECT_THAT(done.error, HasSubstr(text));
  };
  expect({"--models", "vgg"}, "ResNet-50, BERT-Base, BERT-Large");
  expect({"--models", "bert-base,none.json"}, "none.json cannot be read");
  expect({"--methods", "genral"}, "general");
  expect({"--rho", "-1"}, "not a number above 0");
  expect({"--rho", "nan"}, "not a number above 0");
  expect({"--compression", "top_q"}, "top_k");
  expect({"--compression", "top_k:ratio=2"}, "ratio");
  expect({"--compute", "kernels"}, "kernels");
  expect({"--compute=much"}, "--compute");
  expect({"--divide", "0"}, "--divide");
  expect({"--steps", "none"}, "--steps");
  expect({"--trace", "/nowhere/t.json"}, "a folder that exists");
  expect({"--svg", "/nowhere/t.svg"}, "a folder that exists");
}

}  // namespace
}  // namespace paceline::test
