#include "paceline/core/checkpoint/deal.h"

#include <algorithm>
#include <numeric>

namespace paceline::checkpoint {

std::vector<int> deal(std::span<const std::uint64_t> bytes, int ranks) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return bytes[i]; });
  std::vector<std::uint64_t> shares(static_cast<std::size_t>(ranks), 0);
  std::vector<int> rank_of(bytes.size());
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(shares);
    rank_of[i] = static_cast<int>(least - shares.begin());
    *least += bytes[i];
  }
  return rank_of;
}

}  // namespace paceline::checkpoint
