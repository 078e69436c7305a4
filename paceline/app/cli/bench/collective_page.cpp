#include "paceline/app/cli/bench/collective_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/text.h"
#include "paceline/core/observe/log_plot.h"

namespace paceline::cli {
namespace {

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

std::string collective_page(const std::string& title,
                            const std::vector<std::pair<std::string, std::string>>& facts,
                            const std::vector<CollectiveRow>& rows) {
  return page(title, facts, time_plot(rows) + bandwidth_plot(rows) + table(rows));
}

}  // namespace paceline::cli
