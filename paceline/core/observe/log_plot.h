// Curves over two logarithmic axes, as an SVG: self-contained, in the colours of the page that it
// stands in, light or dark.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace paceline::observe {

// Distinguishable also without colours of full sight (Okabe and Ito), and on light and dark.
inline constexpr std::array kPlotColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                            "#e69f00", "#56b4e9", "#a0765b", "#8a8a8a"};

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
