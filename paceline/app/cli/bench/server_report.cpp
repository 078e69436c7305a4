#include "paceline/app/cli/bench/server_report.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>

namespace paceline::cli {

double ServerRow::gigabytes_per_second() const {
  return p50_us > 0 ? static_cast<double>(bytes) / p50_us / 1e3 : 0;
}

std::vector<ServerRow> server_rows(const measure::Comparison& comparison) {
  const auto& all = comparison.candidates;
  const auto own = std::ranges::find_if(
      all, [](const measure::Measurement& one) { return one.candidate.algorithm.empty(); });
  std::vector<ServerRow> rows;
  for (const measure::Measurement& one : all) {
    const std::string& name = one.candidate.algorithm;
    ServerRow row{.operation = name.empty() ? "all_reduce" : name,
                  .bytes = one.candidate.bytes,
                  .p50_us = measure::quantile(one.seconds, 0.5) * 1e6,
                  .errors = one.errors};
    if (own != all.end() && !name.empty())
      row.ratio = measure::quantile(measure::ratios(*own, one), 0.5);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string server_head() {
  return fmt::format("{:>11}  {:<10} {:>10} {:>8} {:>14} {:>7}\n", "bytes", "operation", "p50 us",
                     "GB/s", "of all_reduce", "errors");
}

std::string server_line(const ServerRow& row) {
  return fmt::format("{:>11}  {:<10} {:>10.1f} {:>8.3f} {:>14} {:>7}\n", row.bytes, row.operation,
                     row.p50_us, row.gigabytes_per_second(),
                     row.ratio > 0 ? fmt::format("{:.2f} x", row.ratio) : "", row.errors);
}

std::string clock_head() {
  return fmt::format("{:<40} {:>15} {:>9} {:>14} {:>20}\n", "synchrony", "clocks a second",
                     "forecast", "time a clock", "staleness mean, most");
}

std::string clock_line(const ClockRow& row) {
  return fmt::format("{:<40} {:>15.2f} {:>9.2f} {:>12.2f} x {:>14.2f} {:>5g}\n", row.synchrony,
                     row.figures.clocks_per_second, row.forecast, row.time_of_first,
                     row.figures.staleness_mean, row.figures.staleness_max);
}

std::string server_json(const ServedJob& job, const std::vector<ServerRow>& rows,
                        const std::vector<ClockRow>& clocks) {
  const auto described = [&](nlohmann::ordered_json object) {
    object["workers"] = job.workers;
    object["servers"] = job.servers;
    object["placement"] = job.placement;
    object["transport"] = job.transport;
    return object.dump();
  };
  std::vector<std::string> lines;
  for (const ServerRow& row : rows) {
    nlohmann::ordered_json object = {{"operation", row.operation},
                                     {"bytes", row.bytes},
                                     {"p50_us", row.p50_us},
                                     {"GBps", row.gigabytes_per_second()},
                                     {"errors", row.errors}};
    if (row.ratio > 0) object["ratio_to_all_reduce"] = row.ratio;
    lines.push_back(described(std::move(object)));
  }
  for (const ClockRow& row : clocks) {
    lines.push_back(described({{"operation", "clock"},
                               {"synchrony", row.synchrony},
                               {"clocks_per_second", row.figures.clocks_per_second},
                               {"forecast", row.forecast},
                               {"staleness_mean", row.figures.staleness_mean},
                               {"staleness_max", row.figures.staleness_max},
                               {"time_to_first", row.time_of_first}}));
  }
  return fmt::format("[{}]\n", fmt::join(lines, ",\n "));
}

}  // namespace paceline::cli
