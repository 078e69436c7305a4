// BCube all_reduce: the ranks' numbers in base `radix`; along each digit, all ranks that differ in
// it alone exchange directly, one switch away in a BCube network.
//
// 4 ranks, radix 2:
//     last digit     0 <--> 1    2 <--> 3     halves of the buffer are summed
//     first digit    0 <--> 2    1 <--> 3     quarters
//     and back: quarters along the first digit, halves along the last one
//
// With n = b^m f ranks (f the rest that b does not divide): rounds 2m and 2 more for f.
// Bytes a rank: 2(n-1)/n of the buffer (a lower bound). Ranks: any n >= 1, radix >= 2.
// With radix 2 and a power of two it is halving and doubling, nearest ranks first.
// Order of summation: balanced in each digit (class D3). The balanced tree in rank order when the
// radix is a power of two.
// Reference: Guo et al., BCube, SIGCOMM 2009; docs/algorithms/bcube.md.
#include <bit>

#include "paceline/core/collective/algorithms/algorithm_entries.h"
#include "paceline/core/collective/building/grid.h"

namespace paceline::collective::catalogue::all_reduce {
namespace {

std::vector<int> factors(const Shape& shape) {
  std::vector<int> factors;
  int rest = shape.ranks;
  for (; rest % shape.radix == 0; rest /= shape.radix) factors.push_back(shape.radix);
  if (rest > 1) factors.push_back(rest);
  return factors;
}

bool fits(const Shape& shape) {
  return is_valid(shape) && shape.radix >= 2;
}

Program build(const Shape& shape) {
  return all_reduce_on_grid(factors(shape), shape.rank, reduce_scatter::direct(),
                            all_gather::direct());
}

bool has_balanced_tree(const Shape& shape) {
  return factors(shape).size() <= 1 || std::has_single_bit(static_cast<unsigned>(shape.radix));
}

Counters closed_form(const Shape& shape) {
  return counters_on_grid(factors(shape), reduce_scatter::direct(), all_gather::direct());
}

}  // namespace

Algorithm bcube() {
  return {.operation = Operation::all_reduce,
          .name = "bcube",
          .purpose = "BCube networks: one digit of the rank after the other",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = has_balanced_tree,
          .fits = fits,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_reduce
