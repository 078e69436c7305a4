// The measurements of `paceline bench collective` as a table like that of nccl-tests, as JSON, and
// as the lines that the peers of bench/against print.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/app/measure/measure.h"

namespace paceline::cli {

// One algorithm at one length. Times are of an operation, in microseconds.
struct CollectiveRow {
  struct Yardstick {
    double p50_us = 0;
    double ratio_p10 = 0, ratio_p50 = 0, ratio_p90 = 0;  // quantiles of the blocks' ratios
  };

  Operation operation = Operation::all_reduce;
  std::string algorithm, transport;
  std::string carrier = {};  // for `automatic`: what it took
  Dtype dtype = Dtype::f32;
  int ranks = 1;
  std::size_t bytes = 0, count = 0;  // length of one rank's buffer
  std::size_t operations = 0;        // the number measured
  double p10_us = 0, p50_us = 0, p90_us = 0, mean_us = 0;
  std::int64_t errors = 0;
  std::optional<Yardstick> yardstick = {};

  double algorithm_bandwidth() const;  // GB/s: bytes / p50
  double bus_bandwidth() const;
};

// A row for each candidate.
std::vector<CollectiveRow> rows_of(const measure::Comparison& comparison, int ranks,
                                   const std::string& transport);

std::string table_head(bool with_yardstick);
std::string table_line(const CollectiveRow& row);
std::string rows_json(const std::vector<CollectiveRow>& rows);

// system,ranks,bytes,iters,p10_us,p50_us,p90_us,mean_us,algbw_p50_GBps,rss_mb,check
// The system is "paceline_<transport>", with "_<algorithm>" for one that was named.
std::string rows_csv(const std::vector<CollectiveRow>& rows, std::size_t resident_megabytes);

// The same as a page, one file that loads nothing: time and bus bandwidth over the length, a curve
// for each algorithm and the yardstick, and all rows below. `facts`: what was measured where, name
// and value. Well-formed XML too.
std::string collective_page(const std::string& title,
                            const std::vector<std::pair<std::string, std::string>>& facts,
                            const std::vector<CollectiveRow>& rows);

}  // namespace paceline::cli
