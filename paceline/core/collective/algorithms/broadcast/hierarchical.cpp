// Hierarchical broadcast: one rank of each host gets the buffer, and hands it out there.
//
// Hosts 0 1 | 2 3 | 4 5, root 1:
//     between the hosts    1 --> 4, then 1 --> 2
//     within the hosts     1 --> 0    2 --> 3    4 --> 5
//
// With q hosts: ceil(lg q) rounds, and one within the hosts. Bytes: q-1 times the buffer between
// hosts (a lower bound), of which the root's host sends at most ceil(lg q).
// Ranks: any n >= 1, any root, any hosts. Order of summation: nothing is summed.
// Reference: docs/algorithms/hierarchical.md.
#include <algorithm>

#include "paceline/core/collective/algorithms/algorithm_entries.h"
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/building/host_groups.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::broadcast {
namespace {

Program build(const Shape& shape) {
  const Hosts hosts = hosts_of(shape);
  const std::vector<int>&host = host_of(hosts, shape.rank), leaders = leaders_of(hosts, shape.root);
  const int leader = leader_of(host, shape.root);
  const Program within =
      on({host, {{0}}, 1}, direct().build(shape_among(host, shape.rank, leader)));
  if (shape.rank != leader) return within;
  const Program between =
      on({leaders, {{0}}, 1}, binomial().build(shape_among(leaders, shape.rank, shape.root)));
  const Program both = reads_output(in_sequence({between, within}));
  return shape.rank == shape.root ? with_copy(reads_input(both), 0) : both;
}

// The rounds until a leader has the buffer and has served the other hosts; `place` counts the hosts
// from the root's on. Its forerunner at each distance sends if there is a host at that distance
// behind it.
int rounds_between(int place, int hosts) {
  int rounds = 0;
  for (int distance = 1; distance < hosts; distance *= 2)
    rounds += place / (2 * distance) * (2 * distance) + distance < hosts;
  return rounds;
}

// The number of hosts that a leader serves: those at distances below the one at which it was
// served.
int served_hosts(int place, int hosts) {
  int served = 0;
  for (int distance = 1; place + distance < hosts && place % (2 * distance) == 0; distance *= 2)
    ++served;
  return served;
}

Counters closed_form(const Shape& shape) {
  const Hosts hosts = hosts_of(shape);
  const int count = static_cast<int>(hosts.size());
  const auto roots = std::ranges::find(hosts, host_of(hosts, shape.root)) - hosts.begin();
  Counters counters{.depth = tree_levels(count), .messages = shape.ranks - 1};
  for (int place = 0; place < count; ++place) {
    const auto& host = hosts[static_cast<std::size_t>((roots + place) % count)];
    const int others = static_cast<int>(host.size()) - 1;
    if (others > 0) counters.depth = std::max(counters.depth, rounds_between(place, count) + 1);
    counters.chunks = std::max(counters.chunks, 0L + served_hosts(place, count) + others);
  }
  return counters;
}

}  // namespace

Algorithm hierarchical() {
  return {.operation = Operation::broadcast,
          .name = "hierarchical",
          .purpose = "several ranks a host: each host takes the buffer once",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .rounds_once = true,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::broadcast
