#include "paceline/core/schedule/simulation/fusion.h"

#include <algorithm>
#include <limits>

namespace paceline::schedule {

Fusion exact_fusion(std::span<const double> ready, std::span<const double> bytes,
                    const TransferTime& transfer) {
  const std::size_t count = bytes.size();
  std::vector<double> sum(count + 1, 0), end(count + 1, std::numeric_limits<double>::infinity());
  std::vector<std::size_t> begin_of_last(count + 1, 0);
  end[0] = 0;
  for (std::size_t j = 1; j <= count; ++j) {
    sum[j] = sum[j - 1] + bytes[j - 1];
    for (std::size_t i = 0; i < j; ++i) {
      const double ends = std::max(end[i], ready[j - 1]) + transfer(sum[j] - sum[i]);
      if (ends >= end[j]) continue;
      end[j] = ends;
      begin_of_last[j] = i;
    }
  }
  Fusion fusion{.end = end[count], .cuts = {static_cast<int>(count)}};
  for (std::size_t at = count; at > 0; at = begin_of_last[at])
    fusion.cuts.push_back(static_cast<int>(begin_of_last[at]));
  std::ranges::reverse(fusion.cuts);
  return fusion;
}

Fusion released_fusion(std::span<const double> ready, std::span<const double> bytes,
                       const topology::Line& transfer, double floor) {
  Fusion fusion{.end = 0, .cuts = {0}};
  double open = 0;
  for (std::size_t j = 0; j < bytes.size(); ++j) {
    open += bytes[j];
    const double start = std::max(fusion.end, ready[j]);
    const bool is_last = j + 1 == bytes.size();
    if (!is_last && (ready[j + 1] < start + transfer.alpha || open < floor)) continue;
    fusion.end = start + transfer(open);
    fusion.cuts.push_back(static_cast<int>(j + 1));
    open = 0;
  }
  return fusion;
}

double serial_end(std::span<const double> ready, std::span<const double> bytes,
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
