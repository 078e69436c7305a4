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

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct DrawnPipeline {
  PipelineCase one;
  pipeline::TimedOrder run;
};
DrawnPipeline drawn_pipeline(const PipelineOptions& given, int ranks) {
  PipelineCase one = checked_case(given, ranks);
  auto run = pipeline::simulate_order(one.order, one.costs()).value();
  return {std::move(one), std::move(run)};
}

TEST(PipelineDrawing, ThePictureHasALineForEachRankAndAColumnForEachMoment) {
  const auto drawn =
      drawn_pipeline({.schedule = "1f1b", .micro_batches = "2", .durations = "1:1:1"}, 2);
  EXPECT_EQ(pipeline_picture(drawn.run, 26),
            "rank 0 F0F1....B0  ..B1  \n"
            "rank 1 ..F0B0  F1B1  ....\n");
}

TEST(PipelineDrawing, ANumberThatDoesNotFitIsLeftOut) {
  const auto drawn =
      drawn_pipeline({.schedule = "1f1b", .micro_batches = "2", .durations = "1:1:1"}, 2);
  EXPECT_EQ(pipeline_picture(drawn.run, 17),
            "rank 0 FF..B0.B1\n"
            "rank 1 .FB0FB1..\n");
  EXPECT_THAT(pipeline_picture(drawn.run, 8), IsEmpty());
}

TEST(PipelineDrawing, TheSvgHasALaneForEachRankAndATitleForEachOperation) {
  const auto drawn = drawn_pipeline({.schedule = "zero_bubble"}, 3);
  const std::string svg = pipeline_svg(drawn.one, drawn.run, "paceline simulate pipeline --svg");
  EXPECT_THAT(svg, HasSubstr("<metadata>paceline simulate pipeline --svg</metadata>"));
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(svg, HasSubstr(">rank " + std::to_string(rank) + "<"));
  EXPECT_THAT(svg, Not(HasSubstr(">rank 3<")));
  for (const auto& own : drawn.one.order.ranks)
    for (const pipeline::Operation& operation : own)
      EXPECT_THAT(svg, HasSubstr("<title>" + text_of(operation) + ": "));
  EXPECT_THAT(svg, HasSubstr(">weight gradient<"));
}

TEST(PipelineDrawing, TwoChunksHaveColoursOfTheirOwn) {
  const auto drawn = drawn_pipeline({.schedule = "interleaved:chunks=2"}, 2);
  EXPECT_THAT(pipeline_svg(drawn.one, drawn.run, ""), HasSubstr(">backward, chunk 1<"));
}

}  // namespace

}  // namespace paceline::cli
