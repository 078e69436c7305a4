// The inputs of a short all_reduce of many ranks over links. They travel with the frames of its
// assent (agreement/fingerprint_barrier.h): who tells what ranks have called sends their inputs along. So a call
// takes the frames of its assent alone, where assent and then a program take twice as many.
//
// In the form `dissemination` each rank comes to have all inputs, as in the all_gather of Bruck et
// al. (1997, section 5), and sums them up for itself. In the form `tree` the root has them all, and
// its sum goes down with the word that all have called. The sum is the one that programs make.
// THREAD: reactor's driver only.
#pragma once

#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/collective/agreement/fingerprint_barrier.h"
#include "paceline/core/collective/call/request.h"

namespace paceline::collective {

class GatheredInputs {
 public:
  // A rank comes to hold all inputs, where by a program it is sent a few sums. That pays while a
  // frame costs more than its bytes: within a host up to more of them than over links, and by the
  // tree, where only the root holds all, up to more still.
  static constexpr std::size_t kMostOverLinks = 4 << 10;
  static constexpr std::size_t kMostOnAHost = 48 << 10;
  static constexpr std::size_t kMostOnAHostByTree = 256 << 10;
  static constexpr std::size_t kLongestInput = 4 << 10;
  // The longest input of one rank, in bytes.
  static std::size_t longest_input(FingerprintBarrier::Form form, int ranks, bool on_a_host);

  // `request`: an all_reduce whose input is copied. REQUIRES: ranks > 1.
  GatheredInputs(FingerprintBarrier::Form form, int rank, int ranks, const Request& request);

  // The payload of a frame that this rank may tell now. It stays valid until the next call.
  Bytes told_in(const FingerprintBarrier::Frame& frame);
  // Takes the payload of a frame that this rank has heard. False: it is not of the right length.
  bool put(const FingerprintBarrier::Frame& frame, Bytes payload);
  // Writes the output, unless a frame has brought it or it was written before. REQUIRES: the assent
  // is complete.
  void finish();
  // The bytes of inputs that this rank has summed up.
  std::size_t bytes_reduced() const { return bytes_reduced_; }

 private:
  std::size_t place_of(int rank) const;

  const FingerprintBarrier::Form form_;
  const int rank_;
  const int ranks_;
  const ReduceOp op_;
  const ConstBuffer input_;
  const Buffer output_;
  const std::size_t each_;  // bytes of one input
  // They lie by distance from this rank: those of the ranks before it by dissemination, of those
  // after it by the tree.
  std::vector<std::byte> inputs_;
  bool is_finished_ = false;
  std::size_t bytes_reduced_ = 0;
};

}  // namespace paceline::collective
