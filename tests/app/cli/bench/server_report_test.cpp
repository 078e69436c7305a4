#include "paceline/app/cli/bench/server_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

measure::Measurement measured_as(const std::string& algorithm, double seconds) {
  return {.candidate = {.algorithm = algorithm, .bytes = 1000},
          .seconds = {seconds, seconds},
          .block_medians = {seconds}};
}

TEST(ServerReport, ARatioIsTheAllReducesTimeOverTheOperations) {
  const auto rows =
      server_rows({.candidates = {measured_as("", 10e-6), measured_as("push_pull", 40e-6)}});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].operation, "all_reduce");
  EXPECT_EQ(rows[0].ratio, 0);
  EXPECT_DOUBLE_EQ(rows[1].ratio, 0.25);
  EXPECT_DOUBLE_EQ(rows[1].gigabytes_per_second(), 1000 / 40e-6 / 1e9);
  EXPECT_THAT(server_line(rows[0]), Not(HasSubstr("x")));
  EXPECT_THAT(server_line(rows[1]), HasSubstr("0.25 x"));
  EXPECT_EQ(server_rows({.candidates = {measured_as("push", 1)}})[0].ratio, 0) << "nothing beside";
}

TEST(ServerReport, ItsJsonNamesTheJobInEachRow) {
  const auto rows = server_rows({.candidates = {measured_as("pull", 20e-6)}});
  const auto json = nlohmann::json::parse(server_json(
      {.workers = 4, .servers = 2, .transport = "shm", .placement = "colocated"}, rows,
      {{.synchrony = "asp", .figures = {40, 1.5, 4}, .time_of_first = 0.25, .forecast = 42}}));
  ASSERT_EQ(json.size(), 2U);
  for (const auto& row : json) {
    EXPECT_EQ(row.at("workers"), 4);
    EXPECT_EQ(row.at("servers"), 2);
    EXPECT_EQ(row.at("placement"), "colocated");
    EXPECT_EQ(row.at("transport"), "shm");
  }
  EXPECT_EQ(json[0].at("operation"), "pull");
  EXPECT_EQ(json[0].at("errors"), 0);
  EXPECT_DOUBLE_EQ(json[0].at("p50_us"), 20);
  EXPECT_EQ(json[1].at("operation"), "clock");
  EXPECT_EQ(json[1].at("clocks_per_second"), 40);
  EXPECT_EQ(json[1].at("forecast"), 42);
  EXPECT_EQ(json[1].at("staleness_mean"), 1.5);
  EXPECT_EQ(json[1].at("staleness_max"), 4);
}

}  // namespace
}  // namespace paceline::cli
