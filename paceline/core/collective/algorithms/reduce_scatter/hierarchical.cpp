// Hierarchical reduce_scatter: each host sums up what its ranks have of a chunk, and sends that
// alone to the chunk's rank.
//
// Hosts 0 1 | 2 3:
//     within the hosts    0: 0+1 of chunks 0 2, 1: 0+1 of 1 3    2: 2+3 of 0 2, 3: 2+3 of 1 3
//     across the hosts    0 <-- chunk 0 -- 2, 0 -- chunk 2 --> 2    1 and 3 with chunks 1 and 3
//
// Rounds: 2 with messages. With n ranks on q hosts, a host sends each chunk of the others' ranks
// once (a lower bound). Ranks: any n >= 1, any hosts, any counts.
// Order of summation: balanced over each host, then over the hosts (class D3). The balanced tree in
// rank order where each host holds as many neighbours, a power of two (host_groups.h tells all).
// Reference: docs/algorithms/hierarchical.md.
#include "paceline/core/collective/algorithms/algorithm_entries.h"
#include "paceline/core/collective/building/host_groups.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::reduce_scatter {
namespace {

Program build(const Shape& shape) {
  const Hosts hosts = hosts_of(shape);
  if (hosts.size() == 1) return direct().build(shape);
  const std::vector<int>& host = host_of(hosts, shape.rank);
  const Shape place = shape_among(host, shape.rank);
  const auto kept = kept_on(hosts, host);
  const Program within = on({host, kept, shape.ranks}, direct().build(place));
  std::vector<Program> across;
  for (const int chunk : kept[static_cast<std::size_t>(place.rank)]) {
    const auto keepers = keepers_of(hosts, chunk);
    across.push_back(on({keepers, {{chunk}}, shape.ranks},
                        reduce::linear().build(shape_among(keepers, shape.rank, chunk))));
  }
  const Program both = reads_output(in_sequence({partial(within), side_by_side(across)}));
  return others_in_scratch(reads_input(both), shape.rank);
}

// A rank sends what others of its host keep to them, and then what it keeps itself to the chunks'
// own ranks: all chunks but its own.
Counters closed_form(const Shape& shape) {
  Counters counters = across_and_within(hosts_of(shape));
  counters.chunks = shape.ranks - 1;
  return counters;
}

bool has_balanced_tree(const Shape& shape) {
  return sum_by_balanced_tree(hosts_of(shape));
}

}  // namespace

Algorithm hierarchical() {
  return {.operation = Operation::reduce_scatter,
          .name = "hierarchical",
          .purpose = "several ranks a host: a host sends each sum once",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = has_balanced_tree,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::reduce_scatter
