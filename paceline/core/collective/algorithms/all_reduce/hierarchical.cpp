// Hierarchical all_reduce: sums within each host first, so that hosts send as little as can be.
//
// Hosts of one size: each rank sums up its share of the buffer over its host, the ranks that have
// the same share do so over the hosts, and each host brings its shares together again.
//     hosts 0 1 | 2 3, 4 chunks      rank 0            rank 1            rank 2            rank 3
//       within the hosts             0 1: 0+1          2 3: 0+1          0 1: 2+3          2 3: 2+3
//       0 with 2, 1 with 3           0 1: all          2 3: all          0 1: all          2 3: all
//       within the hosts             everything        ..
// Hosts of several sizes: the first rank of each has the host's sum, these ranks make the sum of
// all, and each hands it out on its host.
//     hosts 0 1 2 | 3 4              0 <-- 1, 0 <-- 2, 3 <-- 4;   0 <--> 3;   0 --> 1 2, 3 --> 4
//
// With n ranks on q hosts a host sends 2(q-1)/q of the buffer to others (a lower bound), in two
// rounds; on one host it is `direct`. Ranks: any n >= 1, any hosts.
// Order of summation: balanced over each host, then over the hosts (class D3). The balanced tree in
// rank order where each host holds as many neighbours, a power of two (host_groups.h tells all).
// Reference: docs/algorithms/hierarchical.md.
#include <algorithm>
#include <numeric>

#include "paceline/core/collective/algorithms/algorithm_entries.h"
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/building/grid.h"
#include "paceline/core/collective/building/host_groups.h"
#include "paceline/core/collective/program/composition.h"

namespace paceline::collective::catalogue::all_reduce {
namespace {

// 0, 1, .., each by itself.
std::vector<std::vector<int>> one_by_one(int count) {
  std::vector<std::vector<int>> chunks;
  for (int chunk = 0; chunk < count; ++chunk) chunks.push_back({chunk});
  return chunks;
}

// The grid: along the first dimension the ranks of a host.
Program by_shares(const Hosts& hosts, int rank) {
  std::vector<int> ranks;
  for (const auto& host : hosts) ranks.insert(ranks.end(), host.begin(), host.end());
  const int all = static_cast<int>(ranks.size()), count = static_cast<int>(hosts.size());
  return on({ranks, one_by_one(all), all},
            all_reduce_on_grid({all / count, count}, shape_among(ranks, rank).rank,
                               reduce_scatter::direct(), all_gather::direct()));
}

Program by_leaders(const Hosts& hosts, int rank) {
  const std::vector<int> leaders = leaders_of(hosts), &host = host_of(hosts, rank);
  const int shares = static_cast<int>(leaders.size());
  std::vector<int> everything(leaders.size());
  std::iota(everything.begin(), everything.end(), 0);
  const CompositionPart within{host, {everything}, shares},
      among{leaders, one_by_one(shares), shares};

  const Shape place = shape_among(host, rank);
  std::vector<Program> phases{partial(on(within, reduce::binomial().build(place)))};
  if (rank == host.front())
    phases.push_back(without_stores(on(among, direct().build(shape_among(leaders, rank)))));
  phases.push_back(on(within, broadcast::direct().build(place)));
  return reads_input(reads_output(in_sequence(phases)));
}

Program build(const Shape& shape) {
  const Hosts hosts = hosts_of(shape);
  return are_of_one_size(hosts) ? by_shares(hosts, shape.rank) : by_leaders(hosts, shape.rank);
}

bool has_balanced_tree(const Shape& shape) {
  return sum_by_balanced_tree(hosts_of(shape));
}

// The way by leaders goes up to the slowest host's leader, twice among the leaders, and down on
// each host.
Counters counters_by_leaders(const Hosts& hosts, int ranks) {
  const int shares = static_cast<int>(hosts.size());
  int largest = 0;
  for (const auto& host : hosts) largest = std::max(largest, static_cast<int>(host.size()));
  return {.depth = tree_levels(largest) + 3,
          .messages = 2L * (ranks - shares) + 2L * shares * (shares - 1),
          .chunks = 2 * (shares - 1) + 1L * (largest - 1) * shares};
}

Counters closed_form(const Shape& shape) {
  const Hosts hosts = hosts_of(shape);
  if (!are_of_one_size(hosts)) return counters_by_leaders(hosts, shape.ranks);
  const int count = static_cast<int>(hosts.size());
  return counters_on_grid({shape.ranks / count, count}, reduce_scatter::direct(),
                          all_gather::direct());
}

}  // namespace

Algorithm hierarchical() {
  return {.operation = Operation::all_reduce,
          .name = "hierarchical",
          .purpose = "several ranks a host: within hosts, then over them",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = has_balanced_tree,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_reduce
