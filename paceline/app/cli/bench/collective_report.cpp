#include "paceline/app/cli/bench/collective_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include <nlohmann/json.hpp>

#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/text.h"
#include "paceline/core/observe/log_plot.h"

namespace paceline::cli {
namespace {

constexpr double kMicroseconds = 1e6;

CollectiveRow row_of(const measure::Measurement& measured,
                     const std::optional<measure::Measurement>& yardstick, int ranks,
                     const std::string& transport) {
  using measure::quantile;
  const measure::Candidate& candidate = measured.candidate;
  const auto& seconds = measured.seconds;
  CollectiveRow row{.operation = candidate.operation,
                    .algorithm = candidate.algorithm.empty() ? "automatic" : candidate.algorithm,
                    .transport = transport,
                    .dtype = candidate.dtype,
                    .ranks = ranks,
                    .count = count_of(candidate, ranks),
                    .operations = seconds.size(),
                    .p10_us = quantile(seconds, 0.1) * kMicroseconds,
                    .p50_us = quantile(seconds, 0.5) * kMicroseconds,
                    .p90_us = quantile(seconds, 0.9) * kMicroseconds,
                    .errors = measured.errors};
  row.bytes = row.count * size_of(row.dtype);
  row.mean_us = std::accumulate(seconds.begin(), seconds.end(), 0.0) /
                static_cast<double>(seconds.size()) * kMicroseconds;
  if (yardstick) {
    const auto ratios = measure::ratios(measured, *yardstick);
    row.yardstick = {.p50_us = quantile(yardstick->seconds, 0.5) * kMicroseconds,
                     .ratio_p10 = quantile(ratios, 0.1),
                     .ratio_p50 = quantile(ratios, 0.5),
                     .ratio_p90 = quantile(ratios, 0.9)};
  }
  return row;
}

std::string microseconds(double value) {
  if (value < 100) return fmt::format("{:.2f}", value);
  return fmt::format("{:.{}f}", value, value < 10'000 ? 1 : 0);
}

// "automatic: board"
std::string label_of(const CollectiveRow& row) {
  return row.carrier.empty() ? row.algorithm : fmt::format("{}: {}", row.algorithm, row.carrier);
}

using observe::Curve;
using observe::escaped;
using observe::LogAxis;

std::string length_text(double bytes) {
  return size_text(static_cast<std::size_t>(bytes + 0.5));
}

const LogAxis kLength{
    .label = "bytes of a rank's buffer", .origin = 4, .step = 16, .text = length_text};

void add_point(std::vector<Curve>& curves, const std::string& name, bool dashed, double x,
               double y) {
  auto found = std::ranges::find(curves, name, &Curve::name);
  if (found == curves.end())
    found = curves.insert(curves.end(), {.name = name, .points = {}, .dashed = dashed});
  // All algorithms of a length were measured beside the same yardstick.
  if (found->points.empty() || found->points.back().first != x) found->points.emplace_back(x, y);
}

// Plots a curve for each algorithm, and the yardstick's last.
std::string plot(const std::string& title, const std::string& unit,
                 const std::vector<CollectiveRow>& rows, double (*of_row)(const CollectiveRow&),
                 double (*of_yardstick)(const CollectiveRow&)) {
  std::vector<Curve> curves, limits;
  for (const CollectiveRow& row : rows) {
    const auto bytes = static_cast<double>(row.bytes);
    add_point(curves, row.algorithm, false, bytes, of_row(row));
    if (row.yardstick) add_point(limits, "yardstick", true, bytes, of_yardstick(row));
  }
  std::ranges::move(limits, std::back_inserter(curves));
  observe::LogPlot drawn;
  drawn.title = title;
  drawn.x = kLength;
  drawn.y.label = unit;
  drawn.curves = std::move(curves);
  return to_svg(drawn);
}

std::string time_plot(const std::vector<CollectiveRow>& rows) {
  return plot(
      "Time of an operation (median)", "us", rows,
      [](const CollectiveRow& row) { return row.p50_us; },
      [](const CollectiveRow& row) { return row.yardstick->p50_us; });
}

std::string bandwidth_plot(const std::vector<CollectiveRow>& rows) {
  return plot(
      "Bus bandwidth", "GB/s", rows, [](const CollectiveRow& row) { return row.bus_bandwidth(); },
      [](const CollectiveRow& row) {
        return row.bus_bandwidth() * row.p50_us / row.yardstick->p50_us;
      });
}

std::string table(const std::vector<CollectiveRow>& rows) {
  const bool with_yardstick =
      std::ranges::any_of(rows, [](const CollectiveRow& r) { return r.yardstick.has_value(); });
  std::string html =
      "<div class=\"scroll\"><table>\n<thead><tr><th>bytes</th><th>count</th><th "
      "class=\"text\">algorithm</th>"
      "<th>p10 us</th><th>p50 us</th><th>p90 us</th><th>algorithm GB/s</th><th>bus GB/s</th>"
      "<th>errors</th>";
  if (with_yardstick) html += "<th>yardstick us</th><th>ratio</th><th>p10 .. p90</th>";
  html += "</tr></thead>\n<tbody>\n";
  for (const CollectiveRow& row : rows) {
    html += fmt::format(
        "<tr><td>{}</td><td>{}</td><td class=\"text\">{}</td><td>{:.2f}</td><td>{:.2f}</td>"
        "<td>{:.2f}</td>"
        "<td>{:.3f}</td><td>{:.3f}</td><td{}>{}</td>",
        size_text(row.bytes), row.count, escaped(row.algorithm), row.p10_us, row.p50_us, row.p90_us,
        row.algorithm_bandwidth(), row.bus_bandwidth(), row.errors > 0 ? " class=\"wrong\"" : "",
        row.errors);
    if (row.yardstick) {
      html += fmt::format("<td>{:.2f}</td><td>{:.2f}</td><td>{:.2f} .. {:.2f}</td>",
                          row.yardstick->p50_us, row.yardstick->ratio_p50, row.yardstick->ratio_p10,
                          row.yardstick->ratio_p90);
    }
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

}  // namespace

double CollectiveRow::algorithm_bandwidth() const {
  return p50_us > 0 ? static_cast<double>(bytes) / p50_us / 1e3 : 0;
}

double CollectiveRow::bus_bandwidth() const {
  return algorithm_bandwidth() * measure::bus_factor(operation, ranks);
}

std::vector<CollectiveRow> rows_of(const measure::Comparison& comparison, int ranks,
                                   const std::string& transport) {
  std::vector<CollectiveRow> rows;
  for (const auto& measured : comparison.candidates) {
    rows.push_back(row_of(measured, comparison.yardstick, ranks, transport));
    if (comparison.yardstick) rows.back().errors += comparison.yardstick->errors;
  }
  return rows;
}

std::string table_head(bool with_yardstick) {
  std::string units =
      fmt::format("{:>11} {:>11}  {:<20} {:>9} {:>9} {:>9} {:>8} {:>8} {:>7}", "bytes", "count",
                  "algorithm", "p10 us", "p50 us", "p90 us", "alg GB/s", "bus GB/s", "errors");
  if (with_yardstick) units += fmt::format(" {:>9}  {}", "yardstick", "ratio [p10 .. p90]");
  return units + "\n";
}

std::string table_line(const CollectiveRow& row) {
  std::string line = fmt::format("{:>11} {:>11}  {:<20} {:>9} {:>9} {:>9} {:>8.3f} {:>8.3f} {:>7}",
                                 row.bytes, row.count, label_of(row), microseconds(row.p10_us),
                                 microseconds(row.p50_us), microseconds(row.p90_us),
                                 row.algorithm_bandwidth(), row.bus_bandwidth(), row.errors);
  if (row.yardstick) {
    line +=
        fmt::format(" {:>9}  {:.2f} [{:.2f} .. {:.2f}]", microseconds(row.yardstick->p50_us),
                    row.yardstick->ratio_p50, row.yardstick->ratio_p10, row.yardstick->ratio_p90);
  }
  return line + "\n";
}

std::string rows_json(const std::vector<CollectiveRow>& rows) {
  std::string text;
  for (const CollectiveRow& row : rows) {
    nlohmann::ordered_json object = {{"operation", name_of(row.operation)},
                                     {"algorithm", row.algorithm},
                                     {"transport", row.transport},
                                     {"dtype", name_of(row.dtype)},
                                     {"ranks", row.ranks},
                                     {"bytes", row.bytes},
                                     {"p10_us", row.p10_us},
                                     {"p50_us", row.p50_us},
                                     {"p90_us", row.p90_us},
                                     {"algbw_GBps", row.algorithm_bandwidth()},
                                     {"busbw_GBps", row.bus_bandwidth()},
                                     {"errors", row.errors}};
    if (!row.carrier.empty()) object["carrier"] = row.carrier;
    if (row.yardstick) {
      object["yardstick_p50_us"] = row.yardstick->p50_us;
      object["yardstick_ratio_p50"] = row.yardstick->ratio_p50;
      object["yardstick_ratio_p10"] = row.yardstick->ratio_p10;
      object["yardstick_ratio_p90"] = row.yardstick->ratio_p90;
    }
    text += (text.empty() ? "" : ",\n ") + object.dump();
  }
  return "[" + text + "]\n";
}

std::string rows_csv(const std::vector<CollectiveRow>& rows, std::size_t resident_megabytes) {
  std::string text;
  for (const CollectiveRow& row : rows) {
    const std::string named = row.algorithm == "automatic" ? "" : "_" + row.algorithm;
    text += fmt::format("paceline_{}{},{},{},{},{:.2f},{:.2f},{:.2f},{:.2f},{:.4f},{},{}\n",
                        row.transport, named, row.ranks, row.bytes, row.operations, row.p10_us,
                        row.p50_us, row.p90_us, row.mean_us, row.algorithm_bandwidth(),
                        resident_megabytes, row.errors == 0 ? "ok" : "WRONG");
  }
  return text;
}

std::string collective_page(const std::string& title,
                            const std::vector<std::pair<std::string, std::string>>& facts,
                            const std::vector<CollectiveRow>& rows) {
  return page(title, facts, time_plot(rows) + bandwidth_plot(rows) + table(rows));
}

}  // namespace paceline::cli
