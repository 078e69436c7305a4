// The hosts of a shape (Shape::groups), as programs made of programs use them.
#pragma once

#include <vector>

#include "paceline/core/collective/program.h"

namespace paceline::collective {

using Hosts = std::vector<std::vector<int>>;  // by host: its ranks

// In rank order, within each host and by the first ranks of the hosts. Where nothing is known, all
// ranks are on one host. REQUIRES: is_valid(shape).
Hosts hosts_of(const Shape& shape);

bool are_of_one_size(const Hosts& hosts);
// Rank 0 and those after it are on the first host, the next ones on the second, and so on.
bool hold_neighbours(const Hosts& hosts);

// REQUIRES: a host holds `rank`.
const std::vector<int>& host_of(const Hosts& hosts, int rank);
// The first rank of each host, and of its own host `root`.
std::vector<int> leaders_of(const Hosts& hosts, int root = 0);

// The shape of a program by `ranks` alone, in this order, as `rank` sees it. REQUIRES: `rank` and
// `root` are among them.
Shape shape_among(const std::vector<int>& ranks, int rank, int root);
Shape shape_among(const std::vector<int>& ranks, int rank);  // the root is the first one

}  // namespace paceline::collective
