#include "paceline/app/measure/candidate.h"

#include <algorithm>

namespace paceline::measure {

std::size_t count_of(const Candidate& candidate, int ranks) {
  const std::size_t count = std::max<std::size_t>(1, candidate.bytes / size_of(candidate.dtype));
  const auto parts = static_cast<std::size_t>(ranks);
  switch (candidate.operation) {
    case Operation::barrier: return 0;
    case Operation::gather:
    case Operation::scatter:
    case Operation::all_to_all: return std::max(parts, count / parts * parts);
    default: return count;
  }
}

double bus_factor(Operation operation, int ranks) {
  const double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (operation) {
    case Operation::barrier: return 0;
    case Operation::all_reduce: return 2 * share;
    case Operation::broadcast:
    case Operation::reduce: return 1;
    default: return share;
  }
}

}  // namespace paceline::measure
