// Spans of time in lanes, bands of lanes under one time axis, as an SVG: self-contained, light or
// dark as its reader; what a span is shows when the mouse rests on it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace paceline::observe {

struct TimelineSpan {
  double begin = 0, end = 0;  // seconds
  std::size_t kind = 0;       // of the plot's legend
  std::string title = {};
};

struct TimelineLane {
  std::string name;
  std::vector<TimelineSpan> spans = {};  // those that overlap are drawn side by side
};

// A line down all lanes of a band.
struct TimelineMark {
  double at = 0;  // seconds
  std::string title;
};

struct TimelineBand {
  std::string title;
  std::vector<TimelineLane> lanes = {};
  std::vector<TimelineMark> marks = {};
};

struct TimelinePlot {
  std::string title;
  std::vector<std::string> kinds;  // at most 8
  std::string mark;                // what the marks are, for the legend; empty: there are none
  std::vector<TimelineBand> bands;
};

// Of what begins before 0 the rest is drawn. Empty when nothing lasts. Well-formed XML.
std::string to_svg(const TimelinePlot& plot);

}  // namespace paceline::observe
