#include "paceline/core/collective/agreement/gathered_blocks.h"

#include <algorithm>

namespace paceline::collective {

GatheredBlocks::GatheredBlocks(FingerprintBarrier::Form form, int rank, int ranks, Bytes own)
    : form_(form),
      rank_(rank),
      ranks_(ranks),
      each_(own.size()),
      bytes_(each_ * static_cast<std::size_t>(ranks)) {
  std::ranges::copy(own, bytes_.begin());
}

bool GatheredBlocks::put(const FingerprintBarrier::Frame& frame, Bytes payload) {
  if (payload.size() != each_ * static_cast<std::size_t>(frame.of_ranks)) return false;
  const std::size_t place = each_ * static_cast<std::size_t>(frame.distance);
  std::ranges::copy(payload, all().subspan(place).begin());
  return true;
}

Bytes GatheredBlocks::of(int rank) const {
  const int distance = form_ == FingerprintBarrier::Form::tree ? rank - rank_ : rank_ - rank;
  const auto place = static_cast<std::size_t>((distance + ranks_) % ranks_);
  return Bytes(bytes_).subspan(each_ * place, each_);
}

}  // namespace paceline::collective
