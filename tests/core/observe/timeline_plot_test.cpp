#include "paceline/core/observe/timeline_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Drawn {
  double x, y, width, height;
  std::string title;
};

std::vector<Drawn> spans_drawn(const std::string& svg) {
  std::vector<Drawn> spans;
  const std::regex rect(
      R"re(<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" fill="[^"]+"><title>([^<]*)</title>)re");
  for (std::sregex_iterator it(svg.begin(), svg.end(), rect), end; it != end; ++it)
    spans.push_back({std::stod((*it)[1]), std::stod((*it)[2]), std::stod((*it)[3]),
                     std::stod((*it)[4]), (*it)[5]});
  return spans;
}

TimelinePlot timeline_of(std::vector<TimelineSpan> spans) {
  return {.title = "steps",
          .kinds = {"forward", "message"},
          .mark = "forecast",
          .bands = {{.title = "merged", .lanes = {{.name = "lane", .spans = std::move(spans)}}}}};
}

TEST(TimelinePlot, TheWidthOfASpanIsItsTimeOnOneAxisForAllBands) {
  TimelinePlot plot = timeline_of({{0, 1, 0, "a"}, {1, 4, 1, "b"}});
  plot.bands.push_back({.title = "other", .lanes = {{.name = "lane", .spans = {{2, 8, 0, "c"}}}}});
  const auto spans = spans_drawn(to_svg(plot));
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_NEAR(spans[1].width, 3 * spans[0].width, 1);
  EXPECT_NEAR(spans[2].width, 2 * spans[1].width, 1);
  EXPECT_NEAR(spans[1].x, spans[0].x + spans[0].width, 1);
  EXPECT_GT(spans[2].y, spans[1].y);
  EXPECT_EQ(spans[2].title, "c");
}

TEST(TimelinePlot, SpansThatOverlapNeverCoverEachOther) {
  SeededNumbers numbers(test::seed(4));
  for (int round = 0; round < 30; ++round) {
    std::vector<TimelineSpan> given;
    for (int i = 0; i < 40; ++i) {
      const double begin = numbers.unit();
      given.push_back({begin, begin + numbers.unit() / 5, 1, "s"});
    }
    const auto spans = spans_drawn(to_svg(timeline_of(given)));
    ASSERT_EQ(spans.size(), given.size());
    for (std::size_t i = 0; i < spans.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        const bool share_time = given[i].begin < given[k].end && given[k].begin < given[i].end;
        const Drawn &upper = spans[i].y < spans[k].y ? spans[i] : spans[k],
                    &lower = spans[i].y < spans[k].y ? spans[k] : spans[i];
        EXPECT_LE(share_time ? upper.y + upper.height : 0, lower.y + 0.02);
      }
    }
  }
}

TEST(TimelinePlot, WhatBeganBeforeIsDrawnFromTheStartAndWhatEndedBeforeNot) {
  const auto spans = spans_drawn(
      to_svg(timeline_of({{-1, 1, 0, "began before"}, {-2, -1, 0, "before"}, {0, 2, 0, "now"}})));
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].title, "began before");
  EXPECT_EQ(spans[0].x, spans[1].x);
}

TEST(TimelinePlot, NamesAreEscapedAndTheAxisHasItsUnit) {
  TimelinePlot plot = timeline_of({{0, 0.004, 0, "<a> & \"b\""}});
  plot.bands[0].marks = {{0.003, "forecast: 3 ms"}};
  const std::string svg = to_svg(plot);
  for (const char* text : {"&lt;a&gt; &amp;", ">milliseconds<", ">merged<", ">lane<", ">forward<",
                           ">message<", ">forecast<", ">forecast: 3 ms<", ">2<", ">4<"})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(svg, Not(HasSubstr("<a>")));
}

TEST(TimelinePlot, NothingThatLastsIsNoPicture) {
  EXPECT_THAT(to_svg(timeline_of({})), IsEmpty());
  EXPECT_THAT(to_svg(timeline_of({{0, 0, 0, "a"}})), IsEmpty());
}

TEST(TimelinePlot, ALabelStandsInItsSpanWhereThereIsRoom) {
  const std::string svg =
      to_svg(timeline_of({{0, 8, 0, "a", "wide"}, {8, 8.01, 0, "b", "narrow"}, {8.01, 9, 0, "c"}}));
  EXPECT_THAT(svg, HasSubstr(">wide</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">narrow</text>")));
}

TEST(TimelinePlot, TheCommandThatDrawsItAgainIsKeptWhereThereIsOne) {
  TimelinePlot plot = timeline_of({{0, 1, 0, "a"}});
  EXPECT_THAT(to_svg(plot), Not(HasSubstr("metadata")));
  plot.made_by = "paceline <this>";
  EXPECT_THAT(to_svg(plot), HasSubstr("<metadata>paceline &lt;this&gt;</metadata>"));
}

}  // namespace
}  // namespace paceline::observe
