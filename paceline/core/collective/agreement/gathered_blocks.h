// Data of all ranks that travel with the frames of a fingerprint barrier: each frame carries the
// blocks of the ranks that it speaks for, so that by dissemination every rank comes to have all of
// them, as in the all_gather of Bruck et al. (1997, section 5), and by the tree the root does.
// THREAD: reactor's driver only.
#pragma once

#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/collective/agreement/fingerprint_barrier.h"

namespace paceline::collective {

// Something that the frames of a barrier carry.
class BarrierCargo {
 public:
  virtual ~BarrierCargo() = default;
  // The payload of a frame that this rank may tell now. It stays valid until the next call.
  virtual Bytes told_in(const FingerprintBarrier::Frame& frame) = 0;
  // Takes the payload of a frame that this rank has heard. False: it is not of the right length.
  virtual bool put(const FingerprintBarrier::Frame& frame, Bytes payload) = 0;
};

class GatheredBlocks {
 public:
  GatheredBlocks(FingerprintBarrier::Form form, int rank, int ranks, Bytes own);

  Bytes told_in(const FingerprintBarrier::Frame& frame) const {
    return Bytes(bytes_).first(each_ * static_cast<std::size_t>(frame.of_ranks));
  }
  bool put(const FingerprintBarrier::Frame& frame, Bytes payload);

  Bytes of(int rank) const;              // REQUIRES: it is here
  MutableBytes all() { return bytes_; }  // by rank at the root of the tree, whose rank is 0
  std::size_t each() const { return each_; }

 private:
  const FingerprintBarrier::Form form_;
  const int rank_, ranks_;
  const std::size_t each_;  // bytes of one block
  // They lie by distance from this rank: those of the ranks before it by dissemination, of those
  // after it by the tree.
  std::vector<std::byte> bytes_;
};

}  // namespace paceline::collective
