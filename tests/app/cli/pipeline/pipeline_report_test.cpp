#include "paceline/app/cli/pipeline/pipeline_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::pair<PipelineCase, pipeline::TimedOrder> simulated(const PipelineOptions& given, int ranks) {
  auto one = checked_case(given, ranks);
  auto run = pipeline::simulate_order(one.order, one.costs()).value();
  return {std::move(one), std::move(run)};
}

TEST(PipelineReport, TheTableHasTheFiguresBesideTheirClosedForms) {
  const auto [one, run] = simulated({.schedule = "interleaved:chunks=2"}, 4);
  const std::string table = pipeline_table(one, run);
  EXPECT_THAT(table, ContainsRegex("makespan +285.00 ms +285.00 ms"));
  EXPECT_THAT(table, ContainsRegex("idle +15.79 % +15.79 %"));
  EXPECT_THAT(table, ContainsRegex("live activations +11 9 7 5 +11 9 7 5"));
  EXPECT_THAT(table, HasSubstr("2 stages are a rank's share"));
  EXPECT_EQ(pipeline_title(one, run),
            "interleaved:chunks=2, 4 ranks, 8 micro-batches: 285.0 ms, idle 15.8 %");
}

TEST(PipelineReport, RanksThatDifferHaveNoClosedTime) {
  const auto [one, run] = simulated({.schedule = "1f1b", .durations = "1:1:1,2:2:2"}, 2);
  EXPECT_THAT(pipeline_table(one, run), ContainsRegex("makespan +[0-9.]+ ms +-\n"));
  const auto json = nlohmann::json::parse(pipeline_json(one, run));
  EXPECT_FALSE(json.at("closed_form").contains("makespan_ms"));
}

TEST(PipelineReport, TheJsonIsOneObjectWithEveryOperation) {
  const auto [one, run] = simulated({.schedule = "zero_bubble"}, 4);
  const auto json = nlohmann::json::parse(pipeline_json(one, run));
  EXPECT_NEAR(json.at("makespan_ms").get<double>(), 270, 1e-9);
  EXPECT_NEAR(json.at("idle_share").get<double>(), 1.0 / 9, 1e-9);
  EXPECT_EQ(json.at("live_activations"), (std::vector<int>{4, 4, 4, 4}));
  EXPECT_EQ(json.at("closed_form").at("live_activations"), json.at("live_activations"));
  ASSERT_EQ(json.at("ranks").size(), 4u);
  for (const auto& rank : json.at("ranks")) {
    EXPECT_EQ(rank.at("operations").size(), 24u);
    EXPECT_NEAR(rank.at("busy_ms").get<double>(), 240, 1e-9);
  }
  EXPECT_EQ(json.at("ranks")[3].at("operations")[0], nlohmann::json({{"kind", "forward"},
                                                                     {"stage", 3},
                                                                     {"micro_batch", 0},
                                                                     {"begin_ms", 30.0},
                                                                     {"end_ms", 40.0}}));
}

}  // namespace
}  // namespace paceline::cli
