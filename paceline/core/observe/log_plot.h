// Curves over two logarithmic axes, as an SVG: self-contained, in the colours of the page that it
// stands in, light or dark.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace paceline::observe {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points = {};
  bool dashed = false;  // for what is no candidate but a limit
};

// Grid lines at origin * step^k, labelled by `text`.
struct LogAxis {
  std::string label;
  double origin = 1, step = 10;
  std::string (*text)(double) = nullptr;
};

struct LogPlot {
  std::string title;
  LogAxis x, y;
  std::vector<Curve> curves;
};

// Points that a logarithmic axis has no place for (zero or less) are left out; empty when no point
// is left. Well-formed XML.
std::string to_svg(const LogPlot& plot);

// &, <, > and quotes, as XML and HTML want them.
std::string escaped(const std::string& text);

}  // namespace paceline::observe
