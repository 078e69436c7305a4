// Shared parts of the tests of hierarchical algorithms.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/collective/building/host_groups.h"
#include "tests/core/collective/programs.h"
#include "tests/support/sanitized.h"

namespace paceline::collective::testing {

// Hosts of any sizes; the ranks in order, or in none.
inline Shape random_hosts(SeededNumbers& numbers, int ranks, bool in_order) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t i = all.size(); !in_order && i > 1; --i)
    std::swap(all[i - 1], all[numbers.below(i)]);
  Shape shape{.ranks = ranks};
  const auto most = 1 + numbers.below(static_cast<std::uint64_t>(ranks));
  for (std::size_t used = 0, left = 0; used < all.size(); ++used, --left) {
    if (left == 0) {
      shape.groups.emplace_back();
      left = 1 + numbers.below(most);
    }
    shape.groups.back().push_back(all[used]);
  }
  return shape;
}

// For each host of hosts_of, the number of chunks that its ranks send to other hosts.
inline std::vector<long> chunks_leaving(const Algorithm& algorithm, const Shape& shape) {
  const Hosts hosts = hosts_of(shape);
  const auto programs = programs_of(algorithm, shape);
  std::vector<long> leaving;
  for (const auto& host : hosts) {
    long& count = leaving.emplace_back(0);
    for (const int rank : host) {
      for (const Round& round : programs[static_cast<std::size_t>(rank)].rounds) {
        count += std::ranges::count_if(round, [&](const Step& step) {
          const bool sends = step.kind == Step::Kind::send || step.kind == Step::Kind::store;
          return sends && std::ranges::find(host, step.peer) == host.end();
        });
      }
    }
  }
  return leaving;
}

}  // namespace paceline::collective::testing
