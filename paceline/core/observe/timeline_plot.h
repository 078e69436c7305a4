// Draws spans of time in lanes, and bands of lanes under one time axis, as an SVG: self-contained,
// light or dark as its reader. A span's title appears when the mouse rests on it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace paceline::observe {

struct TimelineSpan {
  double begin = 0, end = 0;  // seconds
  std::size_t kind = 0;       // index into TimelinePlot::kinds
  std::string title = {};
  std::string label = {};  // stands in the span where there is room for it
};

struct TimelineLane {
  std::string name;
  std::vector<TimelineSpan> spans = {};  // overlapping ones are drawn side by side
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
  std::string mark;                // the marks' name in the legend; empty: there are none
  std::vector<TimelineBand> bands;
  std::string made_by = {};  // the command that draws it again, kept in the file; empty: none
};

// Spans that begin before 0 are drawn from 0 on. The result is empty when no span has a length. The
// XML is well-formed.
std::string to_svg(const TimelinePlot& plot);

}  // namespace paceline::observe
