// `paceline bench server` with real workers and servers: covers
// paceline/app/cli/commands/bench_server.cpp, paceline/app/measure/contestant.h and
// paceline/app/measure/server_pauses.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"
#include "tests/support/nightly.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Finished bench_server(const std::vector<std::string>& words) {
  ProcessOptions options{.command = {binary("paceline"), "bench", "server"}};
  options.command.insert(options.command.end(), words.begin(), words.end());
  return run(options, Deadline::in(60s));
}

TEST(BenchServer, MeasuresEveryOperationAndFindsItsResultsRight) {
  for (const char* transport : {"shm", "tcp"}) {
    const auto done = bench_server({"--ranks", "3", "--servers", "2", "--transport", transport,
                                    "--sizes", "4,5000,3MiB", "--blocks", "1", "--json", "-"});
    ASSERT_EQ(done.exit_code, 0) << done.error;
    std::map<std::string, std::vector<std::size_t>> sizes;
    for (const json& row : json::parse(done.output)) {
      sizes[row.at("operation")].push_back(row.at("bytes"));
      EXPECT_EQ(row.at("errors"), 0) << row;
      EXPECT_EQ(row.at("workers"), 3);
      EXPECT_EQ(row.at("servers"), 2);
      EXPECT_EQ(row.at("transport"), transport);
      EXPECT_EQ(row.contains("ratio_to_all_reduce"), row.at("operation") != "all_reduce");
    }
    for (const char* operation : {"all_reduce", "push_pull", "push", "pull"})
      EXPECT_EQ(sizes[operation], (std::vector<std::size_t>{4, 5000, 3 << 20})) << operation;
  }
}

// One of three workers takes 4 times as long, by sleeping: under bsp all wait for it.
TEST(BenchServer, AWorkerThatIsAlwaysSlowSlowsItselfAloneUnderAsp) {
  const auto done = bench_server({"--ranks",  "3",           "--servers",
                                  "1",        "--sizes",     "4",
                                  "--blocks", "1",           "--operations",
                                  "pull",     "--synchrony", "bsp",
                                  "asp",      "--pace",      "25",
                                  "--slow",   "0:4",         "--clocks",
                                  "8",        "--json",      "-"});
  ASSERT_EQ(done.exit_code, 0) << done.error;
  std::map<std::string, double> time;
  for (const json& row : json::parse(done.output)) {
    if (row.at("operation") != "clock") continue;
    time[row.at("synchrony")] = row.at("time_to_first");
    EXPECT_EQ(row.at("staleness_max") == 0, row.at("synchrony") == "bsp") << row;
  }
  EXPECT_EQ(time["bsp"], 1);
  EXPECT_LT(time["asp"], 0.7) << "by the model 1 / (4 (1 + 1 + 1/4) / 3) = 0.33";
}

TEST(BenchServer, CountsTheRowsOfSparseTablesBesideTheTableAlone) {
  const auto done = bench_server({"--ranks", "2", "--servers", "2", "--sparse", "--rows", "20000",
                                  "--ids", "100", "--seconds", "0.05", "--json", "-"});
  ASSERT_EQ(done.exit_code, 0) << done.error;
  const json rows = json::parse(done.output);
  ASSERT_EQ(rows.size(), 2u);
  for (const json& row : rows)
    for (const char* rate : {"pulled_per_second", "pushed_per_second", "bare_pulled_per_second",
                             "bare_pushed_per_second"})
      EXPECT_GT(row.at(rate), 0) << row;
}

// The most memory that these servers have had so far, in bytes.
std::size_t peak_of_servers(const std::string& mark) {
  std::size_t kib = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || variable_of(pid, "TEST_MARK") != mark) continue;
    if (variable_of(pid, "PACELINE_SERVER_INDEX").empty()) continue;
    std::ifstream status(entry.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmHWM:")) kib += std::stoul(line.substr(std::string("VmHWM:").size()));
  }
  return kib << 10;
}

// A row has 64 bytes, and the state of its rule 4 or 64.
TEST(BenchServer, SparseTablesTakeLittleMoreMemoryThanTheirRows) {
  const std::size_t rows = is_nightly() ? 50'000'000 : 4'000'000, processes = std::size_t{64} << 20;
  const std::size_t gib = std::size_t{1} << 30, rows_asked = 50'000'000;
  const std::map<std::string, std::size_t> most = {{"adagrad:per=row", 6 * gib},
                                                   {"adagrad", 10 * gib}};
  for (const auto& [rule, bytes] : most) {
    const std::string mark = std::to_string(::getpid()) + rule;
    Process bench({.command = {binary("paceline"), "bench", "server", "--ranks", "1", "--servers",
                               "2", "--sparse", "--rows", std::to_string(rows), "--rules", rule,
                               "--seconds", "0.05"},
                   .environment = {{"TEST_MARK", mark}}});
    std::size_t peak = 0;
    for (Deadline end = Deadline::in(300s); !end.passed();) {
      peak = std::max(peak, peak_of_servers(mark));
      if (const auto status = bench.wait(Deadline::in(100ms))) {
        EXPECT_EQ(exit_code(status), 0) << bench.error();
        break;
      }
    }
    std::cout << rule << ": " << rows << " rows, " << peak << " bytes\n";
    EXPECT_GT(peak, rows * 64) << rule;
    EXPECT_LT(peak, bytes / rows_asked * rows + (is_nightly() ? 0 : processes)) << rule;
  }
}

TEST(BenchServer, TellsHowLongWorkersStandStillWhenServersAreKilled) {
  const auto done = bench_server({"--ranks", "2", "--servers", "3", "--replicas", "2",
                                  "--kill-every", "0.3", "--sizes", "40KiB", "--json", "-"});
  ASSERT_EQ(done.exit_code, 0) << done.error;
  const json rows = json::parse(done.output);
  ASSERT_EQ(rows.size(), 1u);
  const json& row = rows.front();
  EXPECT_EQ(row.at("replicas"), 2);
  EXPECT_EQ(row.at("bytes"), 40 << 10);
  EXPECT_GE(row.at("kills"), 1);
  EXPECT_THAT(done.error, HasSubstr("was killed by signal 9 (SIGKILL); the job goes on"));
  EXPECT_GE(row.at("longest_ms"), row.at("median_ms"));
  EXPECT_GE(row.at("longest_ms"), row.at("undisturbed_ms"));
}

TEST(BenchServer, WrongUseIsTwoAndNamesTheRemedy) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--ranks", "2"}, "--ranks 4 --servers 2"},
      {{"--ranks", "2", "--servers", "1", "--operations", "add"}, "push_pull"},
      {{"--ranks", "2", "--servers", "1", "--synchrony", "backup_workers:spare=2"}, "spare"},
      {{"--ranks", "2", "--servers", "2", "--kill-every", "1"}, "--replicas 2"},
      {{"--ranks", "2", "--servers", "2", "--replicas", "2", "--operations", "push_pull"},
       "leave it out"},
      {{"--ranks", "2", "--server-hosts", "a"}, "--servers 2"}};
  for (const auto& [words, remedy] : wrong) {
    const auto done = bench_server(words);
    EXPECT_EQ(done.exit_code, 2) << remedy;
    EXPECT_THAT(done.error, HasSubstr(remedy));
  }
}

}  // namespace
}  // namespace paceline::test
