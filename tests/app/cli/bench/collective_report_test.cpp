#include "paceline/app/cli/bench/collective_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Three blocks of two operations.
measure::Measurement measured(const measure::Candidate& candidate, double seconds) {
  return {.candidate = candidate,
          .seconds = {seconds, seconds, seconds, seconds, 2 * seconds, 2 * seconds},
          .block_medians = {seconds, seconds, 2 * seconds}};
}

measure::Comparison comparison_of(const measure::Candidate& candidate, bool with_yardstick) {
  measure::Comparison comparison{.candidates = {measured(candidate, 30e-6)}};
  if (with_yardstick) comparison.yardstick = measured(candidate, 10e-6);
  return comparison;
}

std::vector<std::string> keys_of(const nlohmann::json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST(CollectiveReport, ItsJsonHasTheseKeysAndWithTheYardstickFourMore) {
  std::vector<std::string> keys = {"algbw_GBps", "algorithm", "busbw_GBps", "bytes",
                                   "dtype",      "errors",    "operation",  "p10_us",
                                   "p50_us",     "p90_us",    "ranks",      "transport"};
  const auto plain =
      nlohmann::json::parse(rows_json(rows_of(comparison_of({.bytes = 64}, false), 2, "shm")));
  ASSERT_EQ(plain.size(), 1U);
  EXPECT_EQ(keys_of(plain[0]), keys);
  for (const char* key :
       {"yardstick_p50_us", "yardstick_ratio_p10", "yardstick_ratio_p50", "yardstick_ratio_p90"})
    keys.emplace_back(key);
  const auto beside =
      nlohmann::json::parse(rows_json(rows_of(comparison_of({.bytes = 64}, true), 2, "shm")));
  EXPECT_EQ(keys_of(beside[0]), keys);
  EXPECT_DOUBLE_EQ(beside[0].at("yardstick_ratio_p50"), 3);
  EXPECT_DOUBLE_EQ(beside[0].at("yardstick_p50_us"), 10);
}

TEST(CollectiveReport, BandwidthIsBytesOverTimeAndTheBussItsFactorTimesThat) {
  for (const Operation operation :
       {Operation::all_reduce, Operation::all_gather, Operation::broadcast, Operation::barrier}) {
    for (const int ranks : {1, 2, 5}) {
      for (const std::size_t bytes : {1, 64, 1 << 20}) {
        const measure::Candidate candidate{
            .operation = operation, .bytes = bytes, .dtype = Dtype::f64};
        const auto row = rows_of(comparison_of(candidate, false), ranks, "tcp").front();
        EXPECT_EQ(row.bytes, row.count * 8);
        EXPECT_DOUBLE_EQ(row.algorithm_bandwidth() * row.p50_us * 1e3,
                         static_cast<double>(row.bytes));
        EXPECT_DOUBLE_EQ(row.bus_bandwidth(),
                         row.algorithm_bandwidth() * measure::bus_factor(operation, ranks));
        EXPECT_LE(row.p10_us, row.p50_us);
        EXPECT_LE(row.p50_us, row.p90_us);
      }
    }
  }
}

TEST(CollectiveReport, TellsWhatTheAutomaticChoiceTook) {
  CollectiveRow row = rows_of(comparison_of({.bytes = 4}, false), 2, "shm").front();
  EXPECT_THAT(table_line(row), Not(HasSubstr("automatic:")));
  row.carrier = "board";
  EXPECT_THAT(table_line(row), HasSubstr("  automatic: board "));
  EXPECT_EQ(nlohmann::json::parse(rows_json({row}))[0].at("carrier"), "board");
}

TEST(CollectiveReport, ErrorsOfTheYardstickCountToo) {
  measure::Comparison comparison = comparison_of({.bytes = 4}, true);
  comparison.yardstick->errors = 2;
  comparison.candidates[0].errors = 1;
  EXPECT_EQ(rows_of(comparison, 2, "shm").front().errors, 3);
}

TEST(CollectiveReport, ItsLinesAreThoseOfThePeers) {
  const auto named = rows_of(comparison_of({.algorithm = "ring", .bytes = 64}, false), 2, "shm");
  EXPECT_EQ(rows_csv(named, 12), "paceline_shm_ring,2,64,6,30.00,30.00,60.00,40.00,0.0021,12,ok\n");
  const auto automatic = rows_of(comparison_of({.bytes = 64}, false), 2, "tcp");
  EXPECT_THAT(rows_csv(automatic, 12), HasSubstr("paceline_tcp,2,64,6,"));
}

TEST(CollectiveReport, ALineOfTheTableLiesUnderItsHead) {
  for (const bool with_yardstick : {false, true}) {
    const auto rows = rows_of(comparison_of({.bytes = 1 << 20}, with_yardstick), 2, "shm");
    const auto end_of_errors = table_head(with_yardstick).find("errors") + std::size_t{6};
    EXPECT_EQ(table_line(rows[0]).substr(end_of_errors - 2, 2), " 0");
  }
}

TEST(CollectivePage, HasBothPlotsAllRowsAndNothingFromElsewhere) {
  auto rows = rows_of(comparison_of({.algorithm = "<ring>", .bytes = 64}, true), 2, "shm");
  for (const auto& row : rows_of(comparison_of({.bytes = 4096}, true), 2, "shm"))
    rows.push_back(row);
  const std::string page = collective_page("all & sundry", {{"a", "b<c"}}, rows);
  for (const char* text : {"<h1>all &amp; sundry</h1>", "<dd>b&lt;c</dd>", "Time of an operation",
                           "Bus bandwidth", "&lt;ring&gt;", "yardstick", "4 KiB"})
    EXPECT_THAT(page, HasSubstr(text));
  for (const char* text : {"src=", "href=", "url(", "@import", "<script"})
    EXPECT_THAT(page, Not(HasSubstr(text)));
}

TEST(CollectivePage, OfABarrierHasNoPlotsForItHasNoLength) {
  const auto rows = rows_of(comparison_of({.operation = Operation::barrier}, false), 2, "shm");
  EXPECT_THAT(collective_page("barrier", {}, rows), Not(HasSubstr("<svg")));
}

}  // namespace
}  // namespace paceline::cli
