// Costs by closed forms, which the plans of schedules are compared with.
#pragma once

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "paceline/core/base/check.h"
#include "paceline/core/schedule/order/costs.h"
#include "paceline/core/schedule/simulation/fusion.h"

namespace paceline::schedule {

enum class Servers : unsigned char { none, dedicated, colocated };

// Every worker has this link to a switch that is never saturated. all_reduce is circulant: it
// starts 2 ceil(lg N) messages and moves 2(N-1)/N of the vector each way. There are as many servers
// as workers.
struct Link {
  double bytes_per_second = 125e6;  // payload, each way
  int workers = 4;
  double alpha = 50e-6;  // seconds to start a message
  double theta = 20e-6;  // seconds for a worker's part of a push, for any length
  Servers servers = Servers::dedicated;
};

inline LinkCosts costs_of(const Link& link) {
  PACELINE_CHECK(link.workers >= 1, "a link of {} workers: give 1 or more", link.workers);
  PACELINE_CHECK(link.bytes_per_second > 0, "a link of {} bytes a second: give more than 0",
                 link.bytes_per_second);
  const double n = link.workers, byte = 1 / link.bytes_per_second;
  const int rounds = std::bit_width(static_cast<unsigned>(link.workers - 1));
  LinkCosts costs{.workers = link.workers,
                  .all_reduce = {2 * rounds * link.alpha, 2 * (n - 1) / n * byte},
                  .all_gather = {rounds * link.alpha, (n - 1) * byte}};
  if (link.servers == Servers::none) return costs;
  const bool is_duplex = link.servers == Servers::dedicated;
  const double held = is_duplex ? byte : (n - 1) / n * byte;
  costs.server = LinkCosts::Server{.push = {link.theta, held},
                                   .pull = {0, held},
                                   .turn = 2 * link.alpha,
                                   .is_duplex = is_duplex};
  return costs;
}

// The codecs fp16, int8 with a shared scale and top_k with 1 %, at the speeds that
// docs/schedules/general.md assumes.
inline std::vector<CodecCost> example_codecs() {
  constexpr double kEncode = 1 / 3e9, kDecode = 1 / 6e9;
  return {{"fp16", .5, true, kEncode, kDecode, 0},
          {"int8", .25, true, kEncode, kDecode, 1},
          {"top_k", .02, false, kEncode, 0, 0}};
}

// The time at which the last transfer of these groups ends.
inline double serial_end(std::span<const double> ready, std::span<const double> bytes,
                         const TransferTime& transfer, const Cuts& cuts) {
  double end = 0;
  for (std::size_t group = 0; group + 1 < cuts.size(); ++group) {
    double total = 0;
    for (int place = cuts[group]; place < cuts[group + 1]; ++place)
      total += bytes[static_cast<std::size_t>(place)];
    end = std::max(end, ready[static_cast<std::size_t>(cuts[group + 1] - 1)]) + transfer(total);
  }
  return end;
}

}  // namespace paceline::schedule
