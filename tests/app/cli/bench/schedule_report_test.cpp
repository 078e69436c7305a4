#include "paceline/app/cli/bench/schedule_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

}  // namespace
}  // namespace paceline::cli
