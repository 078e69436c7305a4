// Random elements that all ranks can draw again (the codec random_k, docs/compression/random_k.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::compress {

// `count` different indices below `elements`, ascending: every element is drawn with the same
// probability, and so is every pair. The first `count` images under a permutation that seed, tensor
// and step key: a balanced Feistel network of 12 rounds over the next power of 4, walked until an
// image is below `elements`. REQUIRES: count <= elements <= 2^32.
std::vector<std::uint32_t> random_indices(std::size_t elements, std::size_t count,
                                          std::uint64_t seed, std::uint32_t tensor,
                                          std::uint32_t step);

}  // namespace paceline::compress
