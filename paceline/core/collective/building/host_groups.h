// The hosts of a shape (Shape::groups), as programs made of programs use them.
#pragma once

#include <vector>

#include "paceline/core/collective/program/program.h"

namespace paceline::collective {

using Hosts = std::vector<std::vector<int>>;  // by host: its ranks

// In rank order, within each host and by the first ranks of the hosts. Where nothing is known, all
// ranks are on one host. REQUIRES: is_valid(shape).
Hosts hosts_of(const Shape& shape);

bool are_of_one_size(const Hosts& hosts);
// Rank 0 and those after it are on the first host, the next ones on the second, and so on.
bool hold_neighbours(const Hosts& hosts);

// Whether sums by the balanced tree over each host's ranks, and then over the hosts, make the
// balanced tree over all ranks in their order: where each host holds as many neighbours, a power of
// two (the last one may hold fewer), and for some others.
bool sum_by_balanced_tree(const Hosts& hosts);

// REQUIRES: a host holds `rank`.
const std::vector<int>& host_of(const Hosts& hosts, int rank);
// Its first rank, or `root` when that is there; those of all hosts.
int leader_of(const std::vector<int>& host, int root);
std::vector<int> leaders_of(const Hosts& hosts, int root = 0);

// The rank that keeps a chunk on each host, when there is one chunk for each rank: its own rank,
// and elsewhere one in the same place on its host, so that the ranks of a host keep about as many
// each.
std::vector<int> keepers_of(const Hosts& hosts, int chunk);
// The chunks that each rank of `host`, one of `hosts`, keeps there.
std::vector<std::vector<int>> kept_on(const Hosts& hosts, const std::vector<int>& host);

// The costs of bringing each chunk to its keeper on every other host, and then what each rank
// keeps to all others of its host, or the way back: how much the busiest rank sends is not among
// it.
Counters across_and_within(const Hosts& hosts);

// The shape of a program by `ranks` alone, in this order, as `rank` sees it. REQUIRES: `rank` and
// `root` are among them.
Shape shape_among(const std::vector<int>& ranks, int rank, int root);
Shape shape_among(const std::vector<int>& ranks, int rank);  // the root is the first one

}  // namespace paceline::collective
