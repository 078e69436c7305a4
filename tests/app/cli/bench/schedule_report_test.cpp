#include "paceline/app/cli/bench/schedule_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "paceline/core/schedule/policies/policies.h"

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

ScheduleRow row() {
  return {.model = "ResNet-50",
          .method = "merged",
          .transport = "tcp",
          .ranks = 4,
          .batch = 64,
          .seconds = {.5, .4, .45},
          .exposed = {.25, .15, .2},
          .compute = .25,
          .transfer = .4,
          .forecast = .36,
          .bound = .35};
}

TEST(ScheduleReport, FiguresAreThoseOfTheMedianStep) {
  EXPECT_DOUBLE_EQ(row().step(), .45);
  EXPECT_DOUBLE_EQ(row().samples_per_second(), 4 * 64 / .45);
  EXPECT_DOUBLE_EQ(row().hidden(), .5);
  EXPECT_NEAR(row().forecast_error(), .2, 1e-12);
  ScheduleRow first = row();
  first.seconds = {.9};
  EXPECT_THAT(schedule_line(row(), first), HasSubstr("2.00"));
}

TEST(ScheduleReport, WhatIsHiddenIsAShareAndAllWhereNothingMoves) {
  ScheduleRow one = row();
  one.exposed = {1};
  EXPECT_EQ(one.hidden(), 0);
  one.transfer = 0;
  EXPECT_EQ(one.hidden(), 1);
}

TEST(ScheduleReport, TheVerdictNamesTheWorstForecast) {
  ScheduleRow good = row();
  good.forecast = .45;
  EXPECT_EQ(schedule_verdict({good, row()}),
            "forecast: 10.0 % wrong in the mean, 20.0 % at worst (merged of ResNet-50)\n");
}

TEST(ScheduleReport, JsonHasARowForEachMethod) {
  ScheduleRow scaled = row();
  scaled.rho = 2;
  const auto json = nlohmann::json::parse(schedule_json({row(), scaled}));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0].at("seconds"), .45);
  EXPECT_TRUE(json[0].at("rho").is_null()) << "the model's own computation";
  EXPECT_EQ(json[1].at("rho"), 2.0);
}

using schedule::Model;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kMs = 1'000'000;

Model three() {
  return {.name = "three",
          .tensors = {{.bytes = 4000000, .name = "first"},
                      {.bytes = 2000000, .name = "second"},
                      {.bytes = 1000000, .name = "third"}}};
}

TEST(ScheduleTimeline, MessagesAreNamedByTheGradientsThatLieInThem) {
  EXPECT_THAT(message_titles(three(), schedule::barrier(three())),
              ElementsAre("message 1 of 1: gradients 1 to 3 (third to first), 7.00 MB"));
  EXPECT_THAT(message_titles(three(), schedule::wait_free(three())),
              ElementsAre("message 1 of 3: gradient 1 (third), 1.00 MB",
                          "message 2 of 3: gradient 2 (second), 2.00 MB",
                          "message 3 of 3: gradient 3 (first), 4.00 MB"));
  Model nameless = three();
  for (schedule::Tensor& tensor : nameless.tensors) tensor.name.clear();
  EXPECT_THAT(message_titles(nameless, schedule::barrier(nameless)),
              ElementsAre("message 1 of 1: gradients 1 to 3, 7.00 MB"));
}

TEST(ScheduleTimeline, APartIsNamedByWhatLiesInItAlone) {
  schedule::MessagePlan plan = schedule::barrier(three());
  plan.groups[0].part_bytes = 3500000;
  EXPECT_THAT(message_titles(three(), plan),
              ElementsAre("message 1 of 2: gradients 1 to 3 (third to first), 3.50 MB",
                          "message 2 of 2: gradient 3 (first), 3.50 MB"));
}

ScheduleRow drawn_row() {
  return {.model = "three",
          .method = "wait_free",
          .plan = "",
          .transport = "tcp",
          .ranks = 4,
          .seconds = {.010},
          .exposed = {.002},
          .forecast = .009};
}

// Two steps of 10 ms; a message of the first one comes back in the second.
std::vector<TraceSpan> spans() {
  return {{TraceLane::training, "three, wait_free", 0, 20 * kMs},
          {TraceLane::training, "forward", 10 * kMs, 13 * kMs},
          {TraceLane::waiting, "for gradient 2", 11 * kMs, 12 * kMs},
          {TraceLane::training, "backward", 13 * kMs, 20 * kMs},
          {TraceLane::operations, "all_reduce f32 250000", 2 * kMs, 3 * kMs},
          {TraceLane::operations, "all_reduce f32 500000", 4 * kMs, 5 * kMs},
          {TraceLane::operations, "all_reduce f32 1000000", 6 * kMs, 11 * kMs},
          {TraceLane::operations, "all_reduce f32 250000", 14 * kMs, 15 * kMs},
          {TraceLane::operations, "barrier", 16 * kMs, 17 * kMs},
          {TraceLane::operations, "all_reduce f64 1", 18 * kMs, 19 * kMs}};
}

TEST(ScheduleTimeline, ShowsWhatTheLastStepComputedAwaitedAndHadUnderWay) {
  const ScheduleWindow window{.begin_ns = 10 * kMs,
                              .end_ns = 20 * kMs,
                              .messages = message_titles(three(), schedule::wait_free(three()))};
  const std::string svg = schedule_timeline({drawn_row()}, {window}, spans());
  for (const char* text :
       {"rank 0 of 4, tcp", "three, wait_free: this step 10.0 ms, median 10.0 ms, forecast 9.0 ms",
        "forward: 3.00 ms", "waits for gradient 2: 1.00 ms", "backward: 7.00 ms",
        "message 3 of 3: gradient 3 (first), 4.00 MB: 5.00 ms",
        "message 1 of 3: gradient 1 (third), 1.00 MB: 1.00 ms", "forecast: 9.00 ms"})
    EXPECT_THAT(svg, HasSubstr(text));
  for (const char* text : {"message 2 of 3", ">barrier", "f64"})
    EXPECT_THAT(svg, Not(HasSubstr(text)));
}

TEST(ScheduleTimeline, OfCodecsTheExchangesThemselvesAreNamed) {
  ScheduleRow coded = drawn_row();
  coded.codec = "fp16";
  const std::string svg =
      schedule_timeline({coded}, {{.begin_ns = 10 * kMs, .end_ns = 20 * kMs}}, spans());
  EXPECT_THAT(svg, HasSubstr("three, wait_free, fp16: "));
  EXPECT_THAT(svg, HasSubstr(">all_reduce f32 250000: 1.00 ms<"));
}

}  // namespace

}  // namespace paceline::cli
