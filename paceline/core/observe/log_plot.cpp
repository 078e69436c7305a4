#include "paceline/core/observe/log_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace paceline::observe {
namespace {

using Point = std::pair<double, double>;

constexpr double kPlotWidth = 760, kHeight = 400;
// The field; the legend is beside it.
constexpr double kLeft = 70, kRight = 580, kTop = 34, kBottom = 344;
constexpr double kLegendLine = 19;

// The stroke of the i-th curve: two of one colour differ in their dashes.
std::string stroke(const Curve& drawn, std::size_t i) {
  const char* dashes = drawn.dashed ? "6 4" : i < kPlotColours.size() ? "none" : "2 3";
  return fmt::format("stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\"",
                     kPlotColours[i % kPlotColours.size()], dashes);
}

bool is_drawable(const Point& point) {
  return point.first > 0 && point.second > 0 && std::isfinite(point.first) &&
         std::isfinite(point.second);
}

// An axis on the page, from the grid line below the least value to the one above the largest.
class Scale {
 public:
  Scale(const LogAxis& axis, double least, double largest, double begin, double end)
      : axis_(axis),
        first_(std::floor(place(least) + 1e-9)),
        last_(std::max(first_ + 1, std::ceil(place(largest) - 1e-9))),
        begin_(begin),
        end_(end) {}

  double at(double value) const { return at_line(place(value)); }
  double at_line(double line) const {
    return begin_ + (line - first_) / (last_ - first_) * (end_ - begin_);
  }
  double first() const { return first_; }
  double last() const { return last_; }
  std::string text(double line) const {
    return escaped(axis_.text(axis_.origin * std::pow(axis_.step, line)));
  }

 private:
  double place(double value) const { return std::log(value / axis_.origin) / std::log(axis_.step); }

  const LogAxis& axis_;
  const double first_, last_, begin_, end_;
};

std::string grid(const Scale& x, const Scale& y) {
  std::string svg;
  for (double line = x.first(); line <= x.last(); ++line) {
    const double at = x.at_line(line);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
        at, kTop, kBottom, kBottom + 18, x.text(line));
  }
  for (double line = y.first(); line <= y.last(); ++line) {
    const double at = y.at_line(line);
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{1}\" x2=\"{2}\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        at, kLeft, kRight, kLeft - 6, at + 4, y.text(line));
  }
  return svg;
}

std::string curve(const Curve& drawn, std::size_t i, const LogPlot& plot, const Scale& x,
                  const Scale& y) {
  std::string line, dots;
  for (const Point& point : drawn.points) {
    if (!is_drawable(point)) continue;
    const double px = x.at(point.first), py = y.at(point.second);
    line += fmt::format("{}{:.1f},{:.1f}", line.empty() ? "" : " ", px, py);
    dots += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{}: {}, {:.4g} {}</title></circle>\n",
        px, py, escaped(drawn.name), escaped(plot.x.text(point.first)), point.second,
        escaped(plot.y.label));
  }
  return fmt::format("<polyline fill=\"none\" {} points=\"{}\"/>\n<g fill=\"{}\">\n{}</g>\n",
                     stroke(drawn, i), line, kPlotColours[i % kPlotColours.size()], dots);
}

std::string legend_line(const Curve& drawn, std::size_t i) {
  const double at = kTop + 8 + kLegendLine * static_cast<double>(i);
  return fmt::format(
      "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\" {3}/>"
      "<text x=\"{4}\" y=\"{5}\">{6}</text>\n",
      kRight + 14, kRight + 38, at, stroke(drawn, i), kRight + 44, at + 4, escaped(drawn.name));
}

struct Extent {
  Point least, largest;
};

std::optional<Extent> extent_of(const std::vector<Curve>& curves) {
  std::optional<Extent> extent;
  for (const Curve& c : curves) {
    for (const Point& p : c.points) {
      if (!is_drawable(p)) continue;
      if (!extent) extent = {p, p};
      extent->least = {std::min(extent->least.first, p.first),
                       std::min(extent->least.second, p.second)};
      extent->largest = {std::max(extent->largest.first, p.first),
                         std::max(extent->largest.second, p.second)};
    }
  }
  return extent;
}

}  // namespace

std::string number_text(double value) {
  return fmt::format("{:g}", value);
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') result += "&amp;";
    else if (c == '<') result += "&lt;";
    else if (c == '>') result += "&gt;";
    else if (c == '"') result += "&quot;";
    else result += c;
  }
  return result;
}

std::string to_svg(const LogPlot& plot) {
  const auto extent = extent_of(plot.curves);
  if (!extent) return {};
  const Scale x(plot.x, extent->least.first, extent->largest.first, kLeft, kRight);
  const Scale y(plot.y, extent->least.second, extent->largest.second, kBottom, kTop);
  const double height =
      std::max(kHeight, kTop + kLegendLine * static_cast<double>(plot.curves.size() + 1));
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\" "
      "fill=\"currentColor\">\n"
      "<style>.grid {{ stroke: currentColor; stroke-opacity: 0.2 }}</style>\n"
      "<title>{2}</title>\n"
      "<text x=\"{3}\" y=\"18\" font-size=\"15\" font-weight=\"bold\">{2}</text>\n",
      kPlotWidth, height, escaped(plot.title), kLeft);
  svg += grid(x, y);
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     (kLeft + kRight) / 2, kBottom + 42, escaped(plot.x.label));
  svg += fmt::format(
      "<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      (kTop + kBottom) / 2, escaped(plot.y.label));
  for (std::size_t i = 0; i < plot.curves.size(); ++i) {
    svg += curve(plot.curves[i], i, plot, x, y) + legend_line(plot.curves[i], i);
  }
  return svg + "</svg>\n";
}

}  // namespace paceline::observe
