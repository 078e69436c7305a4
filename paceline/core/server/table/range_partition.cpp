#include "paceline/core/server/table/range_partition.h"

#include <algorithm>
#include <numeric>

#include "paceline/core/base/check.h"

namespace paceline::server {
namespace {

std::vector<ElementSpan> cut(std::size_t elements, std::size_t part_elements) {
  std::vector<ElementSpan> parts;
  for (std::size_t at = 0; at < elements; at += part_elements)
    parts.push_back({at, std::min(part_elements, elements - at)});
  return parts;
}

}  // namespace

std::vector<int> balanced_bins(const std::vector<std::size_t>& sizes, int bins) {
  std::vector<std::size_t> order(sizes.size()), loads(static_cast<std::size_t>(bins));
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return sizes[i]; });
  std::vector<int> bin_of(sizes.size());
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(loads);
    *least += sizes[i];
    bin_of[i] = static_cast<int>(least - loads.begin());
  }
  return bin_of;
}

std::vector<TableRange> partition(std::size_t elements, int servers, std::size_t part_elements) {
  PACELINE_CHECK(elements > 0 && servers > 0 && part_elements > 0,
                 "a table of {} elements on {} servers in parts of {}: all three are at least 1",
                 elements, servers, part_elements);
  const std::vector<ElementSpan> parts = cut(elements, part_elements);
  std::vector<std::size_t> sizes;
  for (const ElementSpan& part : parts) sizes.push_back(part.count);
  const int bins = servers * kRangesPerServer;
  const std::vector<int> bin_of = balanced_bins(sizes, bins);
  std::vector<TableRange> ranges(static_cast<std::size_t>(bins));
  for (std::size_t i = 0; i < ranges.size(); ++i) ranges[i].server = static_cast<int>(i) % servers;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    TableRange& range = ranges[static_cast<std::size_t>(bin_of[i])];
    range.parts.push_back(parts[i]);
    range.elements += parts[i].count;
  }
  std::erase_if(ranges, [](const TableRange& range) { return range.parts.empty(); });
  return ranges;
}

}  // namespace paceline::server
