// Helpers for tests of mixing graphs. On a graph that looks alike from each rank, waves round the
// ranks are the eigenvectors of the weights, so its rate is that of the slowest wave.
#pragma once

#include <complex>
#include <numbers>
#include <string_view>

#include "paceline/core/collective/mixing/mixing_graph.h"

namespace paceline::collective {

inline MixingGraph mixing_graph(std::string_view name) {
  return parse_mixing_graph(name).value();
}

// Wave j round n ranks has this value `hop` ranks before where it is 1.
inline std::complex<double> wave(int j, int hop, int n) {
  return std::polar(1.0, -2 * std::numbers::pi * j * hop / n);
}

}  // namespace paceline::collective
