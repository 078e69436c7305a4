#include "paceline/torch/strategy/local/forecast.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "paceline/core/base/base.h"

namespace paceline::strategy {
namespace {

std::size_t bytes_of_elements(double elements, Dtype dtype) {
  return static_cast<std::size_t>(elements) * size_of(dtype);
}

double price_of(const Communicator& group, Operation operation, std::size_t bytes, Dtype dtype) {
  const auto forecasts = group.forecasts(operation, bytes, dtype);  // the one that runs first
  return forecasts.empty() ? 0 : forecasts.front().seconds;
}

// A direct all_gather is `others` messages of each rank, of these bytes, at once.
double one_message(const Communicator& group, std::size_t bytes, Dtype dtype) {
  const auto others = static_cast<std::size_t>(group.size() - 1);
  for (const Forecast& one : group.forecasts(Operation::all_gather, bytes * (others + 1), dtype))
    if (one.carrier == "direct") return one.seconds / static_cast<double>(others);
  return 0;
}

}  // namespace

double seconds_per_step(const std::vector<Traffic>& traffic, double compute,
                        const ExchangePrice& seconds_of) {
  // The computation that is left to hide behind, by Overlap.
  std::array<double, 3> left = {0, compute * kBackwardShare, compute};
  double seconds = compute;
  for (const Traffic& one : traffic) {
    double& room = left[static_cast<std::size_t>(one.overlap)];
    const double exchange = seconds_of(one);
    seconds += std::max(0.0, exchange - room) / one.every;
    room = std::max(0.0, room - exchange);
  }
  return seconds;
}

ExchangePrice price_on(const Communicator& group, Dtype dtype) {
  return [&group, dtype](const Traffic& traffic) {
    if (group.size() == 1) return 0.0;
    if (traffic.peers > 0) {
      const std::size_t bytes = bytes_of_elements(traffic.elements / traffic.peers, dtype);
      return traffic.peers * one_message(group, bytes, dtype);
    }
    std::size_t bytes = bytes_of_elements(traffic.elements, dtype);
    // The buffer of an all_gather holds what all ranks bring.
    if (traffic.operation == Operation::all_gather) bytes *= static_cast<std::size_t>(group.size());
    return price_of(group, traffic.operation, bytes, dtype);
  };
}

}  // namespace paceline::strategy
