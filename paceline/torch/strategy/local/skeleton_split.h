// Chooses the parameters ("links") that a rank trains in a round of the strategy `skeleton`: a
// core that all ranks train, and a random share of the rest that differs from rank to rank.
//
// Nobody sends indices: the core follows from values that are equal on all ranks, and each rank's
// share from (round, rank). Sources: the textbook's random model split with a skeleton network; Sun
// et al., Slim-DP, AAAI 2018 (significance, explorers).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace paceline::strategy {

// The `count` links of the greatest |w| / mean |w| + |g| / mean |g|, beside those of `always`; of
// equal ones the lower index. Ascending indices, at least all of `always`.
at::Tensor skeleton_core(const at::Tensor& weights, const at::Tensor& gradient,
                         const at::Tensor& always, std::int64_t count);

// The links outside of the core that a rank explores in a round: `count` of them, ascending.
at::Tensor explored_links(const at::Tensor& core, std::int64_t links, std::int64_t round, int rank,
                          std::int64_t count);

}  // namespace paceline::strategy
