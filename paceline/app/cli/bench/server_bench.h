// The options of `paceline bench server`, and its measurements as a table and as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "paceline/app/cli/bench/bench_ranks.h"
#include "paceline/app/measure/measure.h"

namespace paceline::cli {

// The job that was measured.
struct ServedJob {
  int workers = 1, servers = 1, replicas = 1;
  std::string transport, placement;  // of the servers: "colocated" or "dedicated"
};

// One operation at one length.
struct ServerRow {
  std::string operation;  // all_reduce is the workers' own
  std::size_t bytes = 0;
  double p50_us = 0;
  double ratio = 0;  // of its rate to the all_reduce's, the median of the blocks; 0: not compared
  std::int64_t errors = 0;

  double gigabytes_per_second() const;
};

// One model of consistency.
struct ClockRow {
  std::string synchrony;
  measure::ClockFigures figures = {};
  double time_of_first = 0;  // the time of a clock over that of the first row
  double forecast = 0;       // clocks a second, if messages took no time
};

// Requests of one size to sparse tables of one rule.
struct SparseRow {
  std::string rule;
  std::size_t ids = 0, rows = 0;               // in a request, and stored before
  measure::SparseRates rates = {}, bare = {};  // the latter of the table alone, without messages
};

// Steps of workers while servers are killed.
struct PauseRow {
  std::size_t bytes = 0;
  measure::PauseFigures figures = {};
};

// A row for each candidate. An all_reduce among them is what the others are compared with.
std::vector<ServerRow> server_rows(const measure::Comparison& comparison);

std::string server_head();
std::string server_line(const ServerRow& row);
std::string clock_head();
std::string clock_line(const ClockRow& row);
std::string sparse_head();
std::string sparse_line(const SparseRow& row);
std::string pause_head();
std::string pause_line(const PauseRow& row);
std::string server_json(const ServedJob& job, const std::vector<ServerRow>& rows,
                        const std::vector<ClockRow>& clocks,
                        const std::vector<SparseRow>& sparse = {},
                        const std::vector<PauseRow>& pauses = {});

// The options as the user wrote them.
struct ServerBenchOptions {
  ServerBenchOptions();

  CLI::App app;
  RanksOptions ranks;
  std::string operations = "all_reduce,push_pull,push,pull", sizes = "4KiB,4MiB,64MiB",
              dtype = "f32", blocks = "9", pace = "20", slow, clocks = "50", json, rows = "1000000",
              ids = "1000", seconds = "1", kill_every;
  std::vector<std::string> synchronies, rules = {"adagrad", "adagrad:per=row"};
  bool sparse = false;
};

// The options after the checks that need no ranks.
struct ServerBenchRequest {
  std::vector<std::string> operations = {};  // "" is the workers' own all_reduce
  std::vector<std::size_t> sizes = {};
  Dtype dtype = Dtype::f32;
  int blocks = 9;
  std::vector<measure::ClockOptions> clocks = {};  // of each synchrony
  std::vector<measure::SparseOptions> sparse = {};
  std::vector<measure::PauseOptions> pauses = {};  // for each size
};
// THROWS Error (misuse)
ServerBenchRequest checked(const ServerBenchOptions& given);

}  // namespace paceline::cli
