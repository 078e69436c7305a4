// Shares the tensors that all ranks have alike among the ranks that write them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::checkpoint {

// The rank of each tensor, from the tensors' bytes: the largest first, each to the rank that has
// least so far (Graham 1969, LPT). So the ranks' shares differ by at most the largest tensor, and
// all ranks find the same.
std::vector<int> deal(std::span<const std::uint64_t> bytes, int ranks);

}  // namespace paceline::checkpoint
