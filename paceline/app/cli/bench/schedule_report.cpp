#include "paceline/app/cli/bench/schedule_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "paceline/app/measure/quantile.h"
#include "paceline/core/observe/timeline_plot.h"
#include "paceline/core/schedule/path/dispatch.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

using observe::TimelineBand;
using observe::TimelineLane;
using observe::TimelinePlot;

constexpr double kNano = 1e-9, kMega = 1e-6;

enum Kind : std::size_t { kForward, kBackward, kUpdate, kWaiting, kMessage };
const std::vector<std::string> kKinds = {"forward", "backward", "update", "waiting", "message"};

// The pass of a span; null for other spans, which surround a whole run.
const std::string* pass_of(const TraceSpan& span) {
  const auto pass = std::find(kKinds.begin(), kKinds.begin() + kWaiting, span.name);
  return span.lane == TraceLane::training && pass != kKinds.begin() + kWaiting ? &*pass : nullptr;
}

std::string titled(const std::string& what, double seconds) {
  return fmt::format("{}: {:.2f} ms", what, seconds * kMilli);
}

// A method's band, from the spans of its last step.
class Band {
 public:
  Band(const ScheduleRow& row, const ScheduleWindow& window)
      : row_(row), window_(window), computed_{"computation"}, sent_{"messages, both ways"} {}

  TimelineBand of(std::span<const TraceSpan> spans) {
    std::vector<const TraceSpan*> operations;
    for (const TraceSpan& span : spans) {
      if (span.begin_ns < window_.run_ns || span.begin_ns >= window_.end_ns) continue;
      if (span.lane == TraceLane::operations) {
        if (span.name.starts_with("all_") && span.name.find(" f32") != std::string::npos)
          operations.push_back(&span);
      } else if (const std::string* pass = pass_of(span)) {
        add(computed_, span, static_cast<std::size_t>(pass - kKinds.data()), span.name);
      }
    }
    add_waits(spans);
    add_messages(std::move(operations));
    return {.title = title(),
            .lanes = {std::move(computed_), std::move(sent_)},
            .marks = {{row_.forecast, titled("forecast", row_.forecast)}}};
  }

 private:
  std::string title() const {
    std::string text = fmt::format("{}, {}", row_.model, row_.method);
    if (row_.codec != "none") text += fmt::format(", {}", row_.codec);
    const double step = static_cast<double>(window_.end_ns - window_.begin_ns) * kNano;
    return fmt::format("{}: this step {:.1f} ms, median {:.1f} ms, forecast {:.1f} ms", text,
                       step * kMilli, row_.step() * kMilli, row_.forecast * kMilli);
  }

  void add(TimelineLane& lane, const TraceSpan& span, std::size_t kind, const std::string& what) {
    if (span.end_ns <= window_.begin_ns || span.begin_ns >= window_.end_ns) return;
    const auto since = [this](std::int64_t ns) {
      return static_cast<double>(ns - window_.begin_ns) * kNano;
    };
    lane.spans.push_back({.begin = std::max(0.0, since(span.begin_ns)),
                          .end = since(std::min(span.end_ns, window_.end_ns)),
                          .kind = kind,
                          .title = titled(what, since(span.end_ns) - since(span.begin_ns))});
  }

  // A wait is not computation: the pass in which it lies is drawn around it.
  void add_waits(std::span<const TraceSpan> spans) {
    for (const TraceSpan& span : spans) {
      if (span.lane != TraceLane::waiting || !span.name.starts_with("for ")) continue;
      TimelineLane wait;
      add(wait, span, kWaiting, "waits " + span.name);
      if (!wait.spans.empty()) cut_out(wait.spans.front());
    }
  }
  void cut_out(const observe::TimelineSpan& wait) {
    std::vector<observe::TimelineSpan> left = {wait};
    for (const observe::TimelineSpan& span : computed_.spans) {
      if (span.end <= wait.begin || span.begin >= wait.end) {
        left.push_back(span);
        continue;
      }
      if (span.begin < wait.begin) left.push_back({span.begin, wait.begin, span.kind, span.title});
      if (span.end > wait.end) left.push_back({wait.end, span.end, span.kind, span.title});
    }
    computed_.spans = std::move(left);
  }

  // All ranks hand messages over in the plan's order, step after step, so the k-th operation of a
  // run is known. Codecs exchange several times for a message.
  void add_messages(std::vector<const TraceSpan*> operations) {
    std::ranges::stable_sort(operations, {}, &TraceSpan::begin_ns);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const bool is_known = row_.codec == "none" && !window_.messages.empty();
      add(sent_, *operations[i], kMessage,
          is_known ? window_.messages[i % window_.messages.size()] : operations[i]->name);
    }
  }

  const ScheduleRow& row_;
  const ScheduleWindow& window_;
  TimelineLane computed_, sent_;
};

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

std::vector<std::string> message_titles(const schedule::Model& model,
                                        const schedule::MessagePlan& plan) {
  const schedule::Dispatch dispatch(model, plan);
  std::vector<std::string> titles;
  for (const schedule::Dispatch::Message& message : dispatch.messages()) {
    const schedule::MessageGroup& group = plan.groups[static_cast<std::size_t>(message.group)];
    int first = group.begin, last = group.end - 1;
    while (first < last && dispatch.offset(first + 1) <= message.begin) ++first;
    while (last > first && dispatch.offset(last) >= message.end) --last;
    std::string what = first == last ? fmt::format("gradient {}", first + 1)
                                     : fmt::format("gradients {} to {}", first + 1, last + 1);
    const std::string &from = model.sent(first).name, &to = model.sent(last).name;
    if (!from.empty())
      what += first == last ? fmt::format(" ({})", from) : fmt::format(" ({} to {})", from, to);
    titles.push_back(fmt::format(
        "message {} of {}: {}, {:.2f} MB", titles.size() + 1, dispatch.messages().size(), what,
        static_cast<double>((message.end - message.begin) * sizeof(float)) * kMega));
  }
  return titles;
}

std::string schedule_timeline(const std::vector<ScheduleRow>& rows,
                              const std::vector<ScheduleWindow>& windows,
                              std::span<const TraceSpan> spans) {
  TimelinePlot plot{.title = rows.empty() ? ""
                                          : fmt::format("A step of each schedule: rank 0 of {}, {}",
                                                        rows.front().ranks, rows.front().transport),
                    .kinds = kKinds,
                    .mark = "forecast: the step ends",
                    .bands = {}};
  for (std::size_t i = 0; i < rows.size(); ++i)
    plot.bands.push_back(Band(rows[i], windows[i]).of(spans));
  return to_svg(plot);
}

}  // namespace paceline::cli
