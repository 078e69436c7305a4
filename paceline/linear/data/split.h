// The samples of each rank, and the order in which they are taken: functions of a seed, the same on
// every rank and machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline::linear {

enum class Split : std::uint8_t {
  shuffled,    // a permutation of all, dealt out in turn: every rank has a random sample
  contiguous,  // consecutive ones, as they stand in the file (base/chunk.h)
};
std::string_view name_of(Split split);
Result<Split> parse_split(std::string_view text);

// A permutation of 0 .. count - 1.
std::vector<std::size_t> permutation(std::size_t count, std::uint64_t seed);

// The samples of a rank, rising. Parts are disjoint and hold all samples; their sizes differ by at
// most one, so some are empty when there are more ranks than samples. The only part of one rank is
// the identity.
std::vector<std::size_t> part_of(std::size_t count, Split split, std::uint64_t seed, int rank,
                                 int ranks);

// The seed of what a rank draws in a round.
std::uint64_t seed_of(std::uint64_t seed, int rank, std::int64_t round);

}  // namespace paceline::linear
