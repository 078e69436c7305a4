// How a table's flat memory is cut into ranges, and which server has each.
//
// Memory is cut into parts of equal size; parts go, the largest first, to the range with the least
// bytes. A range is the unit of ownership, sequence numbers and clocks: it is never split, and a
// new plan of messages moves nothing. All members compute the same partition.
#pragma once

#include <cstddef>
#include <vector>

namespace paceline::server {

inline constexpr std::size_t kPartBytes = std::size_t{1} << 20;
inline constexpr int kRangesPerServer = 4;

// Elements [begin, begin + count) of the table.
struct ElementSpan {
  std::size_t begin = 0, count = 0;
  bool operator==(const ElementSpan&) const = default;
};

struct TableRange {
  int server = 0;                  // counted from 0
  std::vector<ElementSpan> parts;  // ascending
  std::size_t elements = 0;
  bool operator==(const TableRange&) const = default;
};

// Largest first, equal ones in their order; each goes to the least loaded bin, the lowest of equal
// ones. Returns the bin of each item. The largest load is at most the mean plus (1 - 1/bins) times
// the largest item. REQUIRES: bins >= 1.
std::vector<int> balanced_bins(const std::vector<std::size_t>& sizes, int bins);

// The ranges that have elements, at most kRangesPerServer a server. Range i of all belongs to
// server i % servers, so that consecutive parts lie on different servers. REQUIRES: elements,
// servers and part_elements are at least 1.
std::vector<TableRange> partition(std::size_t elements, int servers, std::size_t part_elements);

}  // namespace paceline::server
