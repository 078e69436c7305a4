// GatheredWeights: the weights of all ranks in a weighted average, which travel with the assents to
// the call: each frame carries those of the ranks that it speaks for, and the word that all have
// called carries all. THREAD: reactor's driver only.
#pragma once

#include <vector>

#include "paceline/core/collective/agreement/gathered_blocks.h"

namespace paceline::collective {

class GatheredWeights final : public BarrierCargo {
 public:
  GatheredWeights(FingerprintBarrier::Form form, int rank, int ranks, double own)
      : blocks_(form, rank, ranks, std::as_bytes(std::span(&own, 1))), ranks_(ranks) {}

  Bytes told_in(const FingerprintBarrier::Frame& frame) override;
  bool put(const FingerprintBarrier::Frame& frame, Bytes payload) override;

  // Their order is that of the ranks. REQUIRES: the barrier is complete.
  std::vector<double> all() const;

 private:
  GatheredBlocks blocks_;
  const int ranks_;
  std::vector<double> told_;  // by rank, once this rank was told of all
};

}  // namespace paceline::collective
