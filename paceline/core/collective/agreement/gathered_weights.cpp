#include "paceline/core/collective/agreement/gathered_weights.h"

#include <cstring>
#include <span>

namespace paceline::collective {

Bytes GatheredWeights::told_in(const FingerprintBarrier::Frame& frame) {
  if (frame.of_ranks > 0) return blocks_.told_in(frame);
  return told_.empty() ? Bytes(blocks_.all()) : std::as_bytes(std::span(told_));
}

bool GatheredWeights::put(const FingerprintBarrier::Frame& frame, Bytes payload) {
  if (frame.of_ranks > 0) return blocks_.put(frame, payload);
  if (payload.size() != blocks_.all().size()) return false;
  told_.resize(static_cast<std::size_t>(ranks_));
  std::memcpy(told_.data(), payload.data(), payload.size());
  return true;
}

std::vector<double> GatheredWeights::all() const {
  std::vector<double> all = told_;
  for (int rank = static_cast<int>(all.size()); rank < ranks_; ++rank)
    std::memcpy(&all.emplace_back(), blocks_.of(rank).data(), sizeof(double));
  return all;
}

}  // namespace paceline::collective
