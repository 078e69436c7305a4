// Draws curves over two logarithmic axes as an SVG: self-contained, in the colours of the
// surrounding page, light or dark.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace paceline::observe {

// These colours are distinguishable with colour blindness too (Okabe and Ito), on light and dark.
inline constexpr std::array kPlotColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                            "#e69f00", "#56b4e9", "#a0765b", "#8a8a8a"};

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points = {};
  bool dashed = false;  // for a limit rather than a candidate
};

// Writes the number as short as it can, such as "0.5" or "1e+06".
std::string number_text(double value);

// Grid lines at origin * step^k, labelled by `text`.
struct LogAxis {
  std::string label;
  double origin = 1, step = 10;
  std::string (*text)(double) = number_text;
};

struct LogPlot {
  std::string title;
  LogAxis x, y;
  std::vector<Curve> curves;
};

// Leaves out points of zero or less, which have no place on a logarithmic axis, and returns an
// empty string if no point is left. The XML is well-formed.
std::string to_svg(const LogPlot& plot);

// Escapes &, <, > and quotes for XML and HTML.
std::string escaped(const std::string& text);

}  // namespace paceline::observe
