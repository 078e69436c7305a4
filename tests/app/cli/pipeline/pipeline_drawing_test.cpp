#include "paceline/app/cli/pipeline/pipeline_drawing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

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
