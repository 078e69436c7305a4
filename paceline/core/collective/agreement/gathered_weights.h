// GatheredWeights: the weights of all ranks in a weighted average, which travel with the assent to
// the call (agreement/fingerprint_barrier.h): each frame carries those of the ranks that it speaks for, and the word
// that all have called carries all. THREAD: reactor's driver only.
#pragma once

#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/collective/agreement/fingerprint_barrier.h"

namespace paceline::collective {

class GatheredWeights {
 public:
  GatheredWeights(FingerprintBarrier::Form form, int rank, int ranks, double own);

  // The payload of a frame that this rank may tell now.
  Bytes told_in(const FingerprintBarrier::Frame& frame) const;
  // Takes the payload of a frame that this rank has heard. False: it is not of the right length.
  bool put(const FingerprintBarrier::Frame& frame, Bytes payload);

  // Their order is that of the ranks. REQUIRES: the assent is complete.
  std::vector<double> all() const;

 private:
  std::size_t place_of(int rank) const;

  const FingerprintBarrier::Form form_;
  const int rank_;
  // They lie by distance from this rank: those of the ranks before it by dissemination, of those
  // after it by the tree; once it was told of all, by rank.
  std::vector<double> weights_;
  bool is_by_rank_ = false;
};

}  // namespace paceline::collective
