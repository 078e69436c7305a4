#include "paceline/linear/data/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "paceline/core/base/chunk.h"
#include "paceline/core/base/seed.h"

namespace paceline::linear {

std::string_view name_of(Split split) {
  return split == Split::shuffled ? "shuffled" : "contiguous";
}

Result<Split> parse_split(std::string_view text) {
  for (const Split split : {Split::shuffled, Split::contiguous})
    if (text == name_of(split)) return split;
  return Failure{Fault::misuse,
                 fmt::format("there is no split '{}'; there are shuffled, contiguous", text),
                 {}};
}

std::vector<std::size_t> permutation(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  SeededNumbers numbers(seed);
  for (std::size_t left = count; left > 1; --left)
    std::swap(order[left - 1], order[numbers.below(left)]);
  return order;
}

std::vector<std::size_t> part_of(std::size_t count, Split split, std::uint64_t seed, int rank,
                                 int ranks) {
  std::vector<std::size_t> part;
  if (split == Split::contiguous) {
    const std::size_t begin = chunk_offset(count, ranks, rank);
    part.resize(chunk_offset(count, ranks, rank + 1) - begin);
    std::iota(part.begin(), part.end(), begin);
    return part;
  }
  const std::vector<std::size_t> order = permutation(count, seed);
  for (auto i = static_cast<std::size_t>(rank); i < count; i += static_cast<std::size_t>(ranks))
    part.push_back(order[i]);
  std::ranges::sort(part);
  return part;
}

std::uint64_t seed_of(std::uint64_t seed, int rank, std::int64_t round) {
  return mix(mix(seed, static_cast<std::uint64_t>(rank)), static_cast<std::uint64_t>(round));
}

}  // namespace paceline::linear
