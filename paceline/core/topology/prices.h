// The cost of a message in the alpha-beta-gamma model (Hockney 1994; Thakur, Rabenseifner, Gropp
// 2005).
#pragma once

#include <array>
#include <cstddef>

namespace paceline::topology {

struct Prices {
  double alpha = 0;  // seconds a message
  double beta = 0;   // seconds a byte sent
  double gamma = 0;  // seconds a byte reduced
  bool operator==(const Prices&) const = default;
};

// Starting values until a profile is measured; they come from 4 B round trips and 64 MiB streams on
// two cores of Debian 12. Only their ratio matters: it decides from which length on a program with
// fewer bytes wins.
constexpr Prices kSharedMemory{.alpha = 1e-6, .beta = 1.0 / 8e9, .gamma = 1.0 / 8e9};
constexpr Prices kLoopback{.alpha = 12e-6, .beta = 1.0 / 2e9, .gamma = 1.0 / 8e9};
constexpr Prices kNetwork{.alpha = 30e-6, .beta = 1.0 / 1.17e8, .gamma = 1.0 / 8e9};

// The ends of the lines by which a price is given, since one straight line does not fit all lengths
// (docs/guide/choice.md): up to 16 KiB, up to 1 MiB, above.
inline constexpr std::array<std::size_t, 2> kLineEnds = {16 << 10, 1 << 20};

// A message of b bytes takes alpha + b * beta seconds.
struct Line {
  double alpha = 0;
  double beta = 0;
  double operator()(double bytes) const { return alpha + bytes * beta; }
  bool operator==(const Line&) const = default;
};

struct LinkPrices {
  std::array<Line, kLineEnds.size() + 1> lines = {};

  static constexpr LinkPrices straight(double alpha, double beta) {
    const Line line{alpha, beta};
    return {{line, line, line}};
  }
  const Line& line(double bytes) const {
    return lines[bytes <= static_cast<double>(kLineEnds[0])   ? 0
                 : bytes <= static_cast<double>(kLineEnds[1]) ? 1
                                                              : 2];
  }
  bool operator==(const LinkPrices&) const = default;
};

}  // namespace paceline::topology
