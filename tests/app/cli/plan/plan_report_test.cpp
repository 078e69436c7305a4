#include "paceline/app/cli/plan/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

PlanRun run_of(int ranks, int layers, const char* schedule = "1f1b") {
  PlanRun run{.profile = "m.json", .question = {}, .report = {}};
  run.question = {.layers = std::vector<plan::LayerCost>(static_cast<std::size_t>(layers),
                                                         {.forward = 1e-3,
                                                          .backward = 2e-3,
                                                          .output_bytes = 1 << 10,
                                                          .weight_bytes = 1 << 20,
                                                          .saved_bytes = 1 << 10}),
                  .profiled_batch = 16,
                  .batch = 16,
                  .ranks = ranks,
                  .start = 1e-4,
                  .form = plan::PipelineForm::parse(schedule).value()};
  run.report = plan::plan_pipeline(run.question).value();
  return run;
}

TEST(PlanReport, HasALineForEachLayoutAndARankForEachPlace) {
  const PlanRun run = run_of(4, 4);
  const std::string text = plan_text(run);
  EXPECT_THAT(text, AllOf(HasSubstr("m.json: 4 layers; 4 ranks"), HasSubstr("\ndp=4"),
                          HasSubstr("\npp=4 "), HasSubstr("\npp=2,dp=2")));
  const Json json = Json::parse(plan_json(run));
  for (const Json& pipeline : json["pipelines"]) {
    std::vector<int> ranks;
    for (const Json& stage : pipeline["stages"])
      for (const Json& rank : stage["ranks"]) ranks.push_back(rank);
    EXPECT_EQ(ranks, (std::vector<int>{0, 1, 2, 3})) << pipeline["layout"];
  }
  EXPECT_EQ(json["expected"], run.report.best().layout());
}

TEST(PlanReport, PartsOfARanksMemorySumToItsWhole) {
  for (const char* schedule : {"1f1b", "pipedream", "pipedream_2bw", "interleaved:chunks=2"}) {
    const Json json = Json::parse(plan_json(run_of(2, 4, schedule)));
    for (const Json& pipeline : json["pipelines"]) {
      for (const Json& stage : pipeline["stages"]) {
        std::int64_t sum = 0;
        for (const auto& [part, bytes] : stage["memory_bytes"].items())
          if (part != "total") sum += bytes.get<std::int64_t>();
        EXPECT_EQ(sum, stage["memory_bytes"]["total"]) << schedule;
      }
    }
  }
}

TEST(PlanReport, StagesThatCannotBeAreToldAndOneRankHasNoPipeline) {
  EXPECT_THAT(plan_text(run_of(3, 2)), HasSubstr("left out pp=3: "));
  const std::string alone = plan_text(run_of(1, 2));
  EXPECT_THAT(alone, AllOf(HasSubstr("no pipeline can be"), Not(HasSubstr("SPMD"))));
}

}  // namespace
}  // namespace paceline::cli
