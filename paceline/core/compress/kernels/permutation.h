// Random elements that all ranks draw alike (the codec random_k, docs/compression/random_k.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::compress {

// Returns `count` different indices below `elements`, ascending. Every element is drawn with the
// same probability, and so is every pair. They are the first `count` images under a permutation
// that seed, tensor and step key: a balanced Feistel network of 12 rounds over the next power of 4,
// iterated until an image is below `elements`. REQUIRES: count <= elements <= 2^32.
std::vector<std::uint32_t> random_indices(std::size_t elements, std::size_t count,
                                          std::uint64_t seed, std::uint32_t tensor,
                                          std::uint32_t step);

}  // namespace paceline::compress
