// The features of a rank, where features are split among ranks: consecutive ones, by the chunk rule
// (base/chunk.h), whatever the split of samples.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "paceline/core/collective/group/communicator.h"

namespace paceline::linear {

struct FeaturePart {
  std::size_t first = 0, count = 0;
};
FeaturePart feature_part(std::size_t features, const Communicator& group);

// All ranks' weights, in the order of features. Blocks; every rank of the group calls it with the
// weights of its part.
std::vector<double> gather_weights(std::span<const double> own, std::size_t features,
                                   Communicator& group);

}  // namespace paceline::linear
