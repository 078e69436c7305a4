#include "paceline/app/cli/bench/server_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/shared/arguments.h"
#include "paceline/core/base/result.h"

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

TEST(ServerReport, RowsOfSparseTablesStandBesideTheTableAlone) {
  const SparseRow row{.rule = "adagrad",
                      .ids = 1000,
                      .rows = 500,
                      .rates = {.pulled = 2e6, .pushed = 1e6},
                      .bare = {.pulled = 4e6, .pushed = 2.5e6}};
  EXPECT_THAT(sparse_line(row), HasSubstr("0.50 x"));
  EXPECT_THAT(sparse_line(row), HasSubstr("0.40 x"));
  const auto json = nlohmann::json::parse(server_json({}, {}, {}, {row}));
  EXPECT_EQ(json[0].at("operation"), "sparse");
  EXPECT_EQ(json[0].at("bare_pushed_per_second"), 2.5e6);
}

TEST(ServerReport, PausesAreToldInMilliseconds) {
  const PauseRow row{.bytes = 4096,
                     .figures = {.kills = 3, .undisturbed = 1e-3, .longest = 0.05, .median = 0.02}};
  EXPECT_THAT(pause_line(row), HasSubstr("50.0"));
  const auto json = nlohmann::json::parse(server_json({.replicas = 2}, {}, {}, {}, {row}));
  EXPECT_EQ(json[0].at("operation"), "pause");
  EXPECT_EQ(json[0].at("replicas"), 2);
  EXPECT_DOUBLE_EQ(json[0].at("longest_ms"), 50);
}

using ::testing::HasSubstr;

ServerBenchRequest server_request_of(const std::vector<std::string>& words) {
  ServerBenchOptions options;
  parse(options.app, words);
  return checked(options);
}

std::string server_refusal_of(const std::vector<std::string>& words) {
  try {
    server_request_of(words);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    return error.what();
  }
  return "nothing was refused";
}

TEST(ServerBenchOptions, SayWhatIsMeasured) {
  const auto request = server_request_of({"--operations", "push,all_reduce", "--sizes", "4..64",
                                          "--dtype", "f64", "--synchrony", "bsp", "ssp:staleness=2",
                                          "--pace", "5", "--clocks", "7", "--slow", "1:5"});
  EXPECT_EQ(request.operations, (std::vector<std::string>{"push", ""}));
  EXPECT_EQ(request.sizes, (std::vector<std::size_t>{4, 16, 64}));
  EXPECT_EQ(request.dtype, Dtype::f64);
  ASSERT_EQ(request.clocks.size(), 2U);
  EXPECT_EQ(request.clocks[1].synchrony, "ssp:staleness=2");
  EXPECT_EQ(request.clocks[1].pace, 0.005);
  EXPECT_EQ(request.clocks[1].clocks, 7);
  EXPECT_EQ(request.clocks[1].slow->rank, 1);
  EXPECT_EQ(request.clocks[1].slow->factor, 5);
  EXPECT_EQ(server_request_of({"--synchrony", "asp", "--slow", "drawn:2"}).clocks[0].slow->rank,
            -1);
}

TEST(ServerBenchOptions, SparseTablesAreMeasuredByRuleAndIds) {
  const auto request = server_request_of(
      {"--sparse", "--rows", "5000", "--ids", "10,100", "--rules", "sgd", "adam"});
  EXPECT_TRUE(request.operations.empty());
  ASSERT_EQ(request.sparse.size(), 4U);
  EXPECT_EQ(request.sparse[1].ids, 100U);
  EXPECT_EQ(request.sparse[2].rule, "adam");
  EXPECT_EQ(request.sparse[3].rows, 5000U);
}

TEST(ServerBenchOptions, RefuseWhatCannotBeByName) {
  EXPECT_THAT(server_refusal_of({"--sparse", "--rules", "rmsprop"}), HasSubstr("adagrad"));
  EXPECT_THAT(server_refusal_of({"--sparse", "--ids", "0"}), HasSubstr("--ids"));
  EXPECT_THAT(server_refusal_of({"--sparse", "--synchrony", "bsp"}), HasSubstr("--sparse"));
  EXPECT_THAT(server_refusal_of({"--operations", "pushpull"}), HasSubstr("push_pull"));
  EXPECT_THAT(server_refusal_of({"--dtype", "f16"}), HasSubstr("--dtype"));
  EXPECT_THAT(server_refusal_of({"--synchrony", "sspp"}), HasSubstr("ssp"));
  EXPECT_THAT(server_refusal_of({"--slow", "0:5"}), HasSubstr("--synchrony bsp asp"));
  EXPECT_THAT(server_refusal_of({"--synchrony", "bsp", "--slow", "5"}), HasSubstr("RANK:FACTOR"));
  EXPECT_THAT(server_refusal_of({"--synchrony", "bsp", "--slow", "0:-1"}), HasSubstr("--slow"));
  EXPECT_THAT(server_refusal_of({"--pace", "0"}), HasSubstr("--pace"));
}

}  // namespace

}  // namespace paceline::cli
