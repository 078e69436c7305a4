#include "paceline/app/cli/bench/schedule_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "paceline/app/measure/quantile.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

double ScheduleRow::step() const {
  return measure::median(seconds);
}

double ScheduleRow::samples_per_second() const {
  return batch * ranks / step();
}

double ScheduleRow::hidden() const {
  return transfer > 0 ? std::clamp(1 - measure::median(exposed) / transfer, 0.0, 1.0) : 1;
}

double ScheduleRow::forecast_error() const {
  return std::abs(forecast / step() - 1);
}

std::string schedule_head() {
  return fmt::format(
      "{:<11} {:<17} {:<10} {:<10} {:>10} {:>10} {:>9} {:>10} {:>7} {:>11} {:>7} {:>8} {:>7}\n",
      "model", "method", "path", "codec", "ms a step", "samples/s", "speed-up", "exposed ms",
      "hidden", "forecast ms", "error", "bound ms", "errors");
}

std::string schedule_line(const ScheduleRow& row, const ScheduleRow& first) {
  return fmt::format(
      "{:<11} {:<17} {:<10} {:<10} {:>10.1f} {:>10.1f} {:>9.2f} {:>10.1f} {:>5.0f} % {:>11.1f} "
      "{:>5.1f} % "
      "{:>8.1f} "
      "{:>7}\n",
      row.model, row.method, row.path, row.codec, row.step() * kMilli, row.samples_per_second(),
      first.step() / row.step(), measure::median(row.exposed) * kMilli, row.hidden() * 100,
      row.forecast * kMilli, row.forecast_error() * 100, row.bound * kMilli, row.errors);
}

std::string schedule_json(const std::vector<ScheduleRow>& rows) {
  Json list = Json::array();
  for (const ScheduleRow& row : rows) {
    list.push_back({{"model", row.model},
                    {"method", row.method},
                    {"plan", row.plan},
                    {"path", row.path},
                    {"codec", row.codec},
                    {"transport", row.transport},
                    {"ranks", row.ranks},
                    {"servers", row.servers},
                    {"placement", row.placement},
                    {"rho", row.rho > 0 ? Json(row.rho) : Json()},
                    {"divide", row.divide},
                    {"computation", row.computes ? "kernels" : "waited"},
                    {"seconds", row.step()},
                    {"seconds_p10", measure::quantile(row.seconds, 0.1)},
                    {"seconds_p90", measure::quantile(row.seconds, 0.9)},
                    {"samples_per_second", row.samples_per_second()},
                    {"exposed_seconds", measure::median(row.exposed)},
                    {"hidden", row.hidden()},
                    {"compute_seconds", row.compute},
                    {"transfer_seconds", row.transfer},
                    {"forecast_seconds", row.forecast},
                    {"forecast_error", row.forecast_error()},
                    {"bound_seconds", row.bound},
                    {"errors", row.errors}});
  }
  return list.dump(2) + "\n";
}

std::string schedule_verdict(const std::vector<ScheduleRow>& rows) {
  double sum = 0;
  const ScheduleRow* worst = &rows.front();
  for (const ScheduleRow& row : rows) {
    sum += row.forecast_error();
    if (row.forecast_error() > worst->forecast_error()) worst = &row;
  }
  return fmt::format("forecast: {:.1f} % wrong in the mean, {:.1f} % at worst ({} of {})\n",
                     100 * sum / static_cast<double>(rows.size()), 100 * worst->forecast_error(),
                     worst->method, worst->model);
}

}  // namespace paceline::cli
