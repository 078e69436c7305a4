// `paceline plan pipeline` from its words to its output. Also covers
// paceline/app/cli/commands/plan.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/commands/subcommand_entries.h"
#include "paceline/core/base/result.h"
#include "paceline/core/schedule/schedule.h"
#include "tests/support/temporary_folder.h"

namespace paceline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

// Four equal layers, each of a MiB of weights.
schedule::Model recorded_model() {
  schedule::Model model{.name = "m", .tensors = {{.bytes = 8, .forward = 1}}, .batch = 32};
  for (int i = 0; i < 4; ++i)
    model.layers.push_back({.name = "layer",
                            .forward = 4e-3,
                            .backward = 8e-3,
                            .output_bytes = 32 << 10,
                            .weight_bytes = 1 << 20,
                            .saved_bytes = 64 << 10,
                            .parameters = 1 << 18});
  return model;
}

class PlanPipeline : public ::testing::Test {
 protected:
  PlanPipeline() { std::ofstream(file_) << json_of(recorded_model()); }

  // The JSON that the command writes for these words.
  Json plan(Words words) {
    const std::string out = folder_.file("plan.json");
    words.insert(words.end(), {"--profile", file_, "--json", out});
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(catalogue::plan_pipeline().main(words), 0);
    text_ = ::testing::internal::GetCapturedStdout();
    std::ifstream in(out);
    return Json::parse(in);
  }

  std::string refusal(Words words) {
    words.insert(words.end(), {"--profile", file_});
    try {
      catalogue::plan_pipeline().main(words);
      ADD_FAILURE() << ::testing::PrintToString(words) << " is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::misuse) << error.what();
      return error.what();
    }
    return "";
  }

  const test::TemporaryFolder folder_;
  const std::string file_ = folder_.file("m.json");
  std::string text_;
};

TEST_F(PlanPipeline, TellsStagesMicroBatchesTimeAndMemoryByRank) {
  const Json json = plan({"--ranks", "2", "--bandwidth", "10gbit", "--start", "0.5ms", "--latency",
                          "0.001ms", "--optimizer", "momentum"});
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["batch"], 32);
  ASSERT_EQ(json["pipelines"].size(), 1u);
  const Json& pipeline = json["pipelines"][0];
  EXPECT_EQ(pipeline["layout"], "pp=2");
  EXPECT_EQ(pipeline["partition"], "0-1,2-3");
  EXPECT_EQ(pipeline["micro_batches"], 8) << "m* = sqrt(24 / .5) is 6.9";
  EXPECT_NEAR(pipeline["step_ms"], 9 * 3.5, .2);
  EXPECT_NEAR(pipeline["idle_share"], 1.0 / 9, .01);
  const Json& last = pipeline["stages"][1];
  EXPECT_EQ(last["ranks"], Json({1}));
  EXPECT_EQ(last["layers"], Json::array({{2, 3}}));
  EXPECT_EQ(last["memory_bytes"]["total"],
            2 * 3 * (1 << 20) + 2 * (64 << 10) / 8 + 2 * (32 << 10) / 8);
  const Json& data = json["data_parallel"];
  EXPECT_EQ(data["layout"], "dp=2");
  EXPECT_NEAR(data["step_ms"], 24.5, .01);
  EXPECT_EQ(json["expected"], "dp=2");
  EXPECT_THAT(text_,
              AllOf(HasSubstr("dp=2 is expected to be"), HasSubstr("times as fast as pp=2"),
                    HasSubstr("dp=2    SPMD"), HasSubstr("both send as much at a batch of")));
}

TEST_F(PlanPipeline, OnSlowLinksAPipelineIsExpectedToBeQuicker) {
  const Json json = plan({"--ranks", "2", "--bandwidth", "200mbit"});
  EXPECT_EQ(json["expected"], "pp=2");
  EXPECT_THAT(text_, HasSubstr("pp=2 is expected to be"));
  EXPECT_GT(json["data_parallel"]["step_ms"], json["pipelines"][0]["step_ms"]);
}

TEST_F(PlanPipeline, TakesScheduleBatchPartitionMicroBatchesAndRecomputation) {
  const Json json = plan({"--ranks", "3", "--schedule", "pipedream", "--partition", "0-2x2,3",
                          "--batch", "64", "--recompute", "auto"});
  const Json& pipeline = json["pipelines"][0];
  EXPECT_EQ(pipeline["layout"], "0-2x2,3x1");
  EXPECT_EQ(pipeline["schedule"], "pipedream");
  EXPECT_EQ(pipeline["stages"][0]["ranks"], Json({0, 1}));
  EXPECT_EQ(pipeline["stages"][0]["weight_versions"], 3);
  EXPECT_EQ(pipeline["stages"][1]["ranks"], Json({2}));
  EXPECT_EQ(pipeline["stages"][1]["recompute"], "full");
  EXPECT_EQ(json["batch"], 64);
  const Json chunks = plan({"--ranks", "2", "--schedule", "interleaved:chunks=2", "--micro-batches",
                            "4"})["pipelines"][0];
  EXPECT_EQ(chunks["micro_batches"], 4);
  EXPECT_EQ(chunks["stages"][0]["layers"], Json::array({{0, 0}, {2, 2}}));
}

TEST_F(PlanPipeline, KeepsToTheLimitOfMemoryAndRefusesOneThatNothingFits) {
  const Json json = plan({"--ranks", "2", "--memory-limit", "10MiB"});
  EXPECT_FALSE(json["data_parallel"]["fits"]);
  EXPECT_EQ(json["expected"], "pp=2");
  EXPECT_THAT(text_, AllOf(HasSubstr("does not fit into the limit"),
                           HasSubstr("data parallelism does not fit")));
  EXPECT_THAT(refusal({"--ranks", "2", "--memory-limit", "2MiB"}),
              AllOf(HasSubstr("nothing fits into 2.0 MiB"), HasSubstr("--memory-limit")));
}

TEST_F(PlanPipeline, WrongUsesAreNamedWithTheirRemedy) {
  const std::pair<Words, Words> uses[] = {
      {{}, {"--ranks 2"}},
      {{"--ranks", "0"}, {"--ranks", "from 1"}},
      {{"--ranks", "2", "--bandwidth", "fast"}, {"--bandwidth", "fast"}},
      {{"--ranks", "2", "--bandwidth", "-1gbit"}, {"--bandwidth", "above 0"}},
      {{"--ranks", "2", "--latency", "0"}, {"--latency"}},
      {{"--ranks", "2", "--schedule", "1f1bb"}, {"--schedule", "did you mean 1f1b?"}},
      {{"--ranks", "2", "--partition", "0-1,3"},
       {"--partition", "layer 2 would stand on no stage"}},
      {{"--ranks", "2", "--partition", "0,1,2,3,4"}, {"5 stages for 4 layers"}},
      {{"--ranks", "2", "--recompute", "every:0"}, {"--recompute", "every:K"}},
      {{"--ranks", "2", "--optimizer", "lion"}, {"--optimizer", "momentum"}},
      {{"--ranks", "2", "--precision", "o3"}, {"--precision", "o2"}},
      {{"--ranks", "2", "--zero", "4"}, {"--zero"}},
      {{"--ranks", "2", "--batch", "1"}, {"1 samples for 2 ranks"}},
      {{"--ranks", "2", "--micro-batches", "few"}, {"--micro-batches", "few"}},
      {{"--ranks", "2", "--rank", "2"}, {"--rank"}},
  };
  for (const auto& [words, says] : uses)
    for (const std::string& text : says) EXPECT_THAT(refusal(words), HasSubstr(text));
}

TEST(PlanPipelineProfile, WithoutLayersOrWithoutAFileIsRefusedWithTheRemedy) {
  const test::TemporaryFolder folder;
  const std::string old = folder.file("old.json");
  schedule::Model model = recorded_model();
  model.layers.clear();
  std::ofstream(old) << json_of(model);
  const std::pair<Words, Words> uses[] = {
      {{"--ranks", "2"}, {"--profile is missing", "paceline profile"}},
      {{"--ranks", "2", "--profile", old}, {"not of layers", "record it again with: paceline"}},
      {{"--ranks", "2", "--profile", folder.file("none.json")}, {"cannot be read"}},
  };
  for (const auto& [words, says] : uses) {
    try {
      catalogue::plan_pipeline().main(words);
      ADD_FAILURE() << ::testing::PrintToString(words) << " is taken";
    } catch (const Error& error) {
      for (const std::string& text : says) EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }
}

TEST(Plan, WithoutAPlanOrWithAnUnknownOneIsAWrongUse) {
  constexpr int kUsage = 2;
  EXPECT_EQ(catalogue::plan().main({}), kUsage);
  EXPECT_EQ(catalogue::plan().main({"pipelines"}), kUsage);
  EXPECT_EQ(catalogue::plan().main({"--help"}), 0);
}

}  // namespace
}  // namespace paceline::cli
