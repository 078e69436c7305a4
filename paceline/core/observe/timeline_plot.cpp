#include "paceline/core/observe/timeline_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/observe/log_plot.h"

namespace paceline::observe {
namespace {

constexpr double kPageWidth = 1120, kTimelineLeft = 130, kTimelineRight = 1100;
constexpr double kHeader = 62, kTitle = 22, kBetween = 12, kFooter = 46;
constexpr double kLane = 16;     // height of a lane of one row
constexpr double kLetter = 6.2;  // width of a letter
constexpr double kLeastRow = 3;  // height of a row if there are many
constexpr std::size_t kMostTicks = 12;
constexpr double kMilli = 1e3;

constexpr const char* kStyle = R"(<style>
.paper{fill:#ffffff}.ink{fill:#24292f}.faint{fill:#6e7781}.grid{stroke:#afb8c1;stroke-width:.6}
.lane{fill:#818b98;fill-opacity:.1}.mark{stroke:#24292f;stroke-width:1.5;stroke-dasharray:4 3}
rect[fill]{stroke:#ffffff;stroke-width:.4}.label{fill:#ffffff}
@media (prefers-color-scheme:dark){.paper{fill:#0d1117}.ink{fill:#e6edf3}.faint{fill:#8b949e}
.grid{stroke:#484f58}.mark{stroke:#e6edf3}rect[fill]{stroke:#0d1117}}
</style>
)";

std::string text_at(double x, double y, std::string_view look, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, look, escaped(text));
}

// The row of each span; there are as many rows as spans that overlap at a time.
struct Rows {
  std::vector<std::size_t> of;
  std::size_t count = 1;
};

Rows side_by_side(const std::vector<TimelineSpan>& spans) {
  std::vector<std::size_t> order(spans.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return spans[i].begin; });
  Rows rows{.of = std::vector<std::size_t>(spans.size(), 0)};
  std::vector<double> busy_until;
  for (const std::size_t i : order) {
    auto row = std::ranges::find_if(busy_until, [&](double end) { return end <= spans[i].begin; });
    if (row == busy_until.end()) row = busy_until.insert(row, 0);
    *row = spans[i].end;
    rows.of[i] = static_cast<std::size_t>(row - busy_until.begin());
  }
  rows.count = std::max<std::size_t>(1, busy_until.size());
  return rows;
}

double last_moment(const TimelinePlot& plot) {
  double last = 0;
  for (const TimelineBand& band : plot.bands) {
    for (const TimelineMark& mark : band.marks) last = std::max(last, mark.at);
    for (const TimelineLane& lane : band.lanes)
      for (const TimelineSpan& span : lane.spans) last = std::max(last, span.end);
  }
  return last;
}

// Ticks are 1, 2 or 5 times a power of ten apart, so that there are few.
double tick_of(double seconds) {
  const double least = seconds / static_cast<double>(kMostTicks);
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

class Drawing {
 public:
  explicit Drawing(const TimelinePlot& plot) : plot_(plot), last_(last_moment(plot)) {}

  std::string text() {
    if (!(last_ > 0) || !std::isfinite(last_)) return {};
    std::string body;
    y_ = kHeader;
    for (const TimelineBand& band : plot_.bands) body += drawn(band);
    const std::string grid = axis(y_);
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" "
               "width=\"{0}\" height=\"{1:.0f}\" role=\"img\" "
               "font-family=\"system-ui,sans-serif\" font-size=\"11\">\n",
               kPageWidth, y_ + kFooter) +
           kStyle +
           fmt::format(
               "<title>{}</title>\n{}<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n",
               escaped(plot_.title), made_by()) +
           text_at(12, 24, "class=\"ink\" font-size=\"15\" font-weight=\"600\"", plot_.title) +
           legend() + grid + body + "</svg>\n";
  }

 private:
  std::string made_by() const {
    if (plot_.made_by.empty()) return {};
    return fmt::format("<metadata>{}</metadata>\n", escaped(plot_.made_by));
  }
  double x(double seconds) const {
    return kTimelineLeft + std::clamp(seconds / last_, 0.0, 1.0) * (kTimelineRight - kTimelineLeft);
  }
  static const char* colour(std::size_t kind) { return kPlotColours[kind % kPlotColours.size()]; }

  std::string legend() const {
    std::string svg;
    double at = kTimelineLeft;
    const auto name = [&](const std::string& text) {
      svg += text_at(at + 18, 48, "class=\"ink\"", text);
      at += 36 + kLetter * static_cast<double>(text.size());
    };
    for (std::size_t i = 0; i < plot_.kinds.size(); ++i) {
      svg += fmt::format("<rect x=\"{:.1f}\" y=\"39\" width=\"12\" height=\"10\" fill=\"{}\"/>", at,
                         colour(i));
      name(plot_.kinds[i]);
    }
    if (plot_.mark.empty()) return svg;
    svg += fmt::format("<line class=\"mark\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"36\" y2=\"52\"/>",
                       at + 6);
    name(plot_.mark);
    return svg;
  }

  std::string axis(double bottom) const {
    std::string svg;
    const double tick = tick_of(last_);
    for (int i = 0; tick * i <= last_ * (1 + 1e-9); ++i) {
      const double at = x(tick * i);
      svg += fmt::format(
          "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2:.1f}\"/>", at,
          kHeader, bottom);
      svg += text_at(at, bottom + 14, "class=\"faint\" text-anchor=\"middle\"",
                     fmt::format("{:g}", tick * i * kMilli));
    }
    return svg + text_at((kTimelineLeft + kTimelineRight) / 2, bottom + 32,
                         "class=\"faint\" text-anchor=\"middle\"", "milliseconds");
  }

  std::string drawn(const TimelineBand& band) {
    std::string svg = text_at(12, y_ + 15, "class=\"ink\" font-weight=\"600\"", band.title);
    y_ += kTitle;
    const double top = y_;
    for (const TimelineLane& lane : band.lanes) svg += drawn(lane);
    for (const TimelineMark& mark : band.marks) {
      svg += fmt::format(
          "<line class=\"mark\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\">"
          "<title>{3}</title></line>\n",
          x(mark.at), top - 3, y_, escaped(mark.title));
    }
    y_ += kBetween;
    return svg;
  }

  std::string drawn(const TimelineLane& lane) {
    const Rows rows = side_by_side(lane.spans);
    const auto count = static_cast<double>(rows.count);
    const double row = std::max(kLeastRow, kLane / count), height = row * count;
    std::string svg = text_at(kTimelineLeft - 8, y_ + height / 2 + 4,
                              "class=\"faint\" text-anchor=\"end\"", lane.name);
    svg +=
        fmt::format("<rect class=\"lane\" x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\"/>\n",
                    kTimelineLeft, y_, kTimelineRight - kTimelineLeft, height);
    for (std::size_t i = 0; i < lane.spans.size(); ++i) {
      const TimelineSpan& span = lane.spans[i];
      if (span.end <= 0) continue;
      const double width = std::max(0.4, x(span.end) - x(span.begin));
      svg += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\">"
          "<title>{}</title></rect>\n",
          x(span.begin), y_ + row * static_cast<double>(rows.of[i]), width, row, colour(span.kind),
          escaped(span.title));
      const bool has_room = width > kLetter * static_cast<double>(span.label.size()) + 2;
      if (span.label.empty() || row < kLane || !has_room) continue;
      svg += text_at(x(span.begin) + width / 2, y_ + kLane - 4,
                     "class=\"label\" text-anchor=\"middle\"", span.label);
    }
    y_ += height + 3;
    return svg;
  }

  const TimelinePlot& plot_;
  const double last_;
  double y_ = 0;
};

}  // namespace

std::string to_svg(const TimelinePlot& plot) {
  return Drawing(plot).text();
}

}  // namespace paceline::observe
