#include "paceline/linear/solver/feature_part.h"

#include "paceline/core/base/chunk.h"

namespace paceline::linear {

FeaturePart feature_part(std::size_t features, const Communicator& group) {
  const std::size_t first = chunk_offset(features, group.size(), group.rank());
  return {first, chunk_offset(features, group.size(), group.rank() + 1) - first};
}

std::vector<double> gather_weights(std::span<const double> own, std::size_t features,
                                   Communicator& group) {
  if (group.size() == 1) return {own.begin(), own.end()};
  std::vector<double> all(features);
  group.all_gather(const_buffer_of(own), buffer_of(all)).wait();
  return all;
}

}  // namespace paceline::linear
