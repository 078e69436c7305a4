#include "paceline/core/collective/agreement/gathered_weights.h"

#include <cstring>
#include <span>

namespace paceline::collective {

GatheredWeights::GatheredWeights(FingerprintBarrier::Form form, int rank, int ranks, double own)
    : form_(form), rank_(rank), weights_(static_cast<std::size_t>(ranks)) {
  weights_[0] = own;
}

// The root's lie by rank, because its rank is 0.
Bytes GatheredWeights::told_in(const FingerprintBarrier::Frame& frame) const {
  const std::span all(weights_);
  const bool tells_all = frame.of_ranks == 0;
  return std::as_bytes(tells_all ? all : all.first(static_cast<std::size_t>(frame.of_ranks)));
}

bool GatheredWeights::put(const FingerprintBarrier::Frame& frame, Bytes payload) {
  const bool tells_all = frame.of_ranks == 0;
  const std::span all(weights_);
  const std::span told = tells_all ? all
                                   : all.subspan(static_cast<std::size_t>(frame.distance),
                                                 static_cast<std::size_t>(frame.of_ranks));
  if (payload.size() != told.size_bytes()) return false;
  std::memcpy(told.data(), payload.data(), payload.size());
  is_by_rank_ = is_by_rank_ || tells_all;
  return true;
}

std::size_t GatheredWeights::place_of(int rank) const {
  if (is_by_rank_) return static_cast<std::size_t>(rank);
  const int ranks = static_cast<int>(weights_.size());
  const int distance = form_ == FingerprintBarrier::Form::tree ? rank - rank_ : rank_ - rank;
  return static_cast<std::size_t>((distance + ranks) % ranks);
}

std::vector<double> GatheredWeights::all() const {
  std::vector<double> all;
  for (int rank = 0; rank < static_cast<int>(weights_.size()); ++rank)
    all.push_back(weights_[place_of(rank)]);
  return all;
}

}  // namespace paceline::collective
