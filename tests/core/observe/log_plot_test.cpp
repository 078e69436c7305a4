#include "paceline/core/observe/log_plot.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <regex>

namespace paceline::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string number(double value) {
  return fmt::format("{:g}", value);
}

LogPlot plot_of(std::vector<Curve> curves) {
  return {.title = "time",
          .x = {.label = "bytes", .origin = 4, .step = 16, .text = number},
          .y = {.label = "us", .text = number},
          .curves = std::move(curves)};
}

std::vector<std::pair<double, double>> drawn(const std::string& svg) {
  std::vector<std::pair<double, double>> points;
  const std::regex circle(R"re(<circle cx="([\d.]+)" cy="([\d.]+)")re");
  for (std::sregex_iterator it(svg.begin(), svg.end(), circle), end; it != end; ++it)
    points.emplace_back(std::stod((*it)[1]), std::stod((*it)[2]));
  return points;
}

TEST(LogPlot, EqualRatiosAreEqualDistances) {
  const auto points = drawn(to_svg(plot_of({{"a", {{4, 1}, {64, 10}, {1024, 100}}}})));
  ASSERT_EQ(points.size(), 3U);
  EXPECT_NEAR(points[1].first - points[0].first, points[2].first - points[1].first, 0.2);
  EXPECT_NEAR(points[0].second - points[1].second, points[1].second - points[2].second, 0.2);
  EXPECT_LT(points[0].first, points[2].first) << "to the right it grows";
  EXPECT_GT(points[0].second, points[2].second) << "and upwards, where y is less";
}

TEST(LogPlot, EveryPointLiesInTheField) {
  for (const double x : {1e-9, 0.3, 4.0, 5e11}) {
    for (const double y : {1e-6, 1.0, 9.99, 3e7}) {
      for (const auto& [px, py] : drawn(to_svg(plot_of({{"a", {{x, y}, {x * 7, y / 3}}}})))) {
        EXPECT_GE(px, 69.9);
        EXPECT_LE(px, 580.1);
        EXPECT_GE(py, 33.9);
        EXPECT_LE(py, 344.1);
      }
    }
  }
}

TEST(LogPlot, GridLinesAreLabelledWithTheAxisText) {
  const std::string svg = to_svg(plot_of({{"a", {{4, 1}, {1024, 100}}}}));
  for (const char* label : {">4<", ">64<", ">1024<", ">1<", ">10<", ">100<", ">bytes<", ">us<"})
    EXPECT_THAT(svg, HasSubstr(label));
  EXPECT_THAT(svg, Not(HasSubstr(">16384<")));
}

TEST(LogPlot, LeavesOutWhatHasNoLogarithm) {
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(
      drawn(to_svg(plot_of({{"a", {{0, 1}, {4, 0}, {4, -1}, {4, infinite}, {4, 1}}}}))).size(), 1U);
  EXPECT_THAT(to_svg(plot_of({{"a", {{0, 1}}}})), IsEmpty());
  EXPECT_THAT(to_svg(plot_of({})), IsEmpty());
}

TEST(LogPlot, NamesEveryCurveAndEscapesItsText) {
  const std::string svg = to_svg(plot_of({{"a<b & \"c\"", {{4, 1}}}, {"limit", {{4, 1}}, true}}));
  EXPECT_THAT(svg, HasSubstr(">a&lt;b &amp; &quot;c&quot;<"));
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray"));
  EXPECT_THAT(svg, HasSubstr(">limit<"));
}

}  // namespace
}  // namespace paceline::observe
