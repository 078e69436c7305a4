// What a message costs, in the alpha-beta-gamma model (Hockney 1994; Thakur, Rabenseifner, Gropp
// 2005).
#pragma once

namespace paceline::topology {

struct Prices {
  double alpha = 0;  // seconds a message
  double beta = 0;   // seconds a byte sent
  double gamma = 0;  // seconds a byte reduced
  bool operator==(const Prices&) const = default;
};

// Starting values until a profile is measured (measured with ../shared/peers `limits` on two cores
// of Debian 12: 4 B round trips and 64 MiB streams). Only their ratio matters: it decides from
// which length on a program with fewer bytes wins.
constexpr Prices kSharedMemory{.alpha = 1e-6, .beta = 1.0 / 8e9, .gamma = 1.0 / 8e9};
constexpr Prices kLoopback{.alpha = 12e-6, .beta = 1.0 / 2e9, .gamma = 1.0 / 8e9};
constexpr Prices kNetwork{.alpha = 30e-6, .beta = 1.0 / 1.17e8, .gamma = 1.0 / 8e9};

}  // namespace paceline::topology
