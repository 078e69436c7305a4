#include "paceline/core/collective/program/shapes.h"

#include <algorithm>
#include <numeric>

namespace paceline::collective {
namespace {

using Hosts = std::vector<std::vector<int>>;

// The lengths of the hosts; ranks in a row.
Hosts in_a_row(const std::vector<int>& lengths) {
  Hosts hosts;
  int next = 0;
  for (const int length : lengths) {
    std::vector<int>& host = hosts.emplace_back(static_cast<std::size_t>(length));
    std::iota(host.begin(), host.end(), next);
    next += length;
  }
  return hosts;
}

Hosts in_turns(int ranks, int hosts) {
  Hosts found(static_cast<std::size_t>(hosts));
  for (int rank = 0; rank < ranks; ++rank)
    found[static_cast<std::size_t>(rank % hosts)].push_back(rank);
  return found;
}

std::vector<int> prime_factors(int number) {
  std::vector<int> factors;
  for (int factor = 2; number > 1; ++factor) {
    for (; number % factor == 0; number /= factor) factors.push_back(factor);
  }
  return factors;
}

std::vector<Shape> candidates(int ranks) {
  std::vector<Shape> all = {{.ranks = ranks}};
  for (const int radix : {1, 3, 4, 8}) {
    all.push_back({.ranks = ranks, .radix = radix});
  }
  const auto add_hosts = [&](Hosts hosts) {
    all.push_back({.ranks = ranks, .groups = std::move(hosts)});
  };
  for (int length = 1; length <= ranks; ++length) {
    if (ranks % length != 0) continue;
    const int others = ranks / length;
    add_hosts(in_a_row(std::vector<int>(static_cast<std::size_t>(others), length)));
    if (length > 1 && others > 1) add_hosts(in_turns(ranks, others));
    all.push_back({.ranks = ranks, .dimensions = {length, others}});
  }
  if (ranks > 2) add_hosts(in_a_row({ranks - 1, 1}));
  if (ranks > 4) add_hosts(in_a_row({ranks / 4, ranks / 2, ranks - ranks / 4 - ranks / 2}));
  const std::vector<int> factors = prime_factors(ranks);
  if (factors.size() != 2) {
    all.push_back({.ranks = ranks, .dimensions = factors});
    all.push_back({.ranks = ranks, .dimensions = {factors.rbegin(), factors.rend()}});
  }
  return all;
}

bool fits_every_rank(const Algorithm& algorithm, Shape shape) {
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank)
    if (!algorithm.fits(shape)) return false;
  return true;
}

std::vector<Program> programs_of(const Algorithm& algorithm, Shape shape) {
  std::vector<Program> programs;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank)
    programs.push_back(algorithm.build(shape));
  return programs;
}

}  // namespace

std::vector<Shape> shapes_of(const Algorithm& algorithm, int ranks) {
  std::vector<Shape> shapes;
  std::vector<std::vector<Program>> known;
  for (Shape& shape : candidates(ranks)) {
    if (!fits_every_rank(algorithm, shape)) continue;
    std::vector<Program> programs = programs_of(algorithm, shape);
    if (std::ranges::find(known, programs) != known.end()) continue;
    known.push_back(std::move(programs));
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

std::vector<int> roots_of(Operation operation, int ranks) {
  if (!has_root(operation)) return {0};
  std::vector<int> roots(static_cast<std::size_t>(ranks));
  std::iota(roots.begin(), roots.end(), 0);
  constexpr int kAll = 16;
  if (ranks <= kAll) return roots;
  return {0, 1, ranks / 2, ranks - 1};
}

}  // namespace paceline::collective
