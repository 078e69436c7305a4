// Hierarchical all_gather: each chunk goes once to every other host, and is handed out there.
//
// Hosts 0 1 | 2 3:
//     across the hosts    0 <-- chunks 0, 2 --> 2    1 <-- chunks 1, 3 --> 3
//     within the hosts    0 <-- chunks 0 2, 1 3 --> 1    2 <-- chunks 0 2, 1 3 --> 3
//
// Rounds: 2. With n ranks on q hosts, a host sends q-1 times the chunks of its ranks to others (a
// lower bound), and takes each chunk of theirs once. Ranks: any n >= 1, any hosts, any counts.
// Order of summation: nothing is summed.
// The way back of `hierarchical` of reduce_scatter (docs/algorithms/hierarchical.md).
#include <algorithm>

#include "paceline/core/collective/algorithms/algorithm_entries.h"
#include "paceline/core/collective/building/host_groups.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::all_gather {
namespace {

Program build(const Shape& shape) {
  const Hosts hosts = hosts_of(shape);
  const std::vector<int>& host = host_of(hosts, shape.rank);
  const Shape place = shape_among(host, shape.rank);
  const auto kept = kept_on(hosts, host);
  std::vector<Program> across;
  for (const int chunk : kept[static_cast<std::size_t>(place.rank)]) {
    const auto keepers = keepers_of(hosts, chunk);
    across.push_back(on({keepers, {{chunk}}, shape.ranks},
                        broadcast::direct().build(shape_among(keepers, shape.rank, chunk))));
  }
  const Program within = on({host, kept, shape.ranks}, direct().build(place));
  const Program both = reads_output(in_sequence({side_by_side(across), within}));
  return with_copy(reads_input(both), shape.rank);
}

// The first rank of a host keeps most there: of each host's chunks every one that lies as far
// behind another as the host has ranks.
Counters closed_form(const Shape& shape) {
  const Hosts hosts = hosts_of(shape);
  Counters counters = across_and_within(hosts);
  const int others = static_cast<int>(hosts.size()) - 1;
  for (const auto& host : hosts) {
    const std::size_t size = host.size();
    std::size_t kept = 0;
    for (const auto& of : hosts) kept += (of.size() + size - 1) / size;
    counters.chunks = std::max(counters.chunks, others + static_cast<long>((size - 1) * kept));
  }
  return counters;
}

}  // namespace

Algorithm hierarchical() {
  return {.operation = Operation::all_gather,
          .name = "hierarchical",
          .purpose = "several ranks a host: a host takes each chunk once",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_gather
