// BlueConnect all_reduce: rings along each dimension of a grid, so that most of the bytes stay on
// the fast links of the first dimension.
//
// 2 x 2 ranks, the first dimension 0 1 and 2 3 (on the same host, say):
//     reduce_scatter, rings 0 1 and 2 3    half of the buffer each way
//     reduce_scatter, rings 0 2 and 1 3    a quarter
//     all_gather, rings 0 2 and 1 3        a quarter
//     all_gather, rings 0 1 and 2 3        half
//
// With n = p1 p2 .. pk ranks: 2((p1-1) + .. + (pk-1)) rounds. Bytes a rank: 2(n-1)/n of the buffer
// (a lower bound), of which 2(pk-1)/n in the last dimension.
// Ranks: any n >= 1. Dimensions: those of the shape; else the ranks of a host and the hosts, where
// all hosts hold as many neighbours; else the prime factors of n, smallest first.
// Order of summation: along the rings, so it depends on the chunk (class D2).
// Reference: Cho et al., BlueConnect, MLSys 2019; docs/algorithms/blueconnect.md.
#include "paceline/core/collective/algorithms/algorithm_entries.h"
#include "paceline/core/collective/building/grid.h"
#include "paceline/core/collective/building/host_groups.h"

namespace paceline::collective::catalogue::all_reduce {
namespace {

std::vector<int> prime_factors(int number) {
  std::vector<int> factors;
  for (int factor = 2; number > 1; ++factor) {
    for (; number % factor == 0; number /= factor) factors.push_back(factor);
  }
  return factors;
}

std::vector<int> dimensions_of(const Shape& shape) {
  if (!shape.dimensions.empty()) return shape.dimensions;
  const Hosts hosts = hosts_of(shape);
  const bool is_grid = are_of_one_size(hosts) && hold_neighbours(hosts);
  if (hosts.size() == 1 || !is_grid) return prime_factors(shape.ranks);
  const int count = static_cast<int>(hosts.size());
  return {shape.ranks / count, count};
}

Program build(const Shape& shape) {
  return all_reduce_on_grid(dimensions_of(shape), shape.rank, reduce_scatter::ring(),
                            all_gather::ring());
}

Counters closed_form(const Shape& shape) {
  return counters_on_grid(dimensions_of(shape), reduce_scatter::ring(), all_gather::ring());
}

}  // namespace

Algorithm blueconnect() {
  return {.operation = Operation::all_reduce,
          .name = "blueconnect",
          .purpose = "networks of several speeds: rings, the fastest first",
          .determinism = DeterminismClass::d2,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_reduce
