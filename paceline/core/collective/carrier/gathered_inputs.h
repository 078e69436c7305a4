// The inputs of a short all_reduce of many ranks over links. They travel with the frames of its
// barrier (agreement/fingerprint_barrier.h): who tells what ranks have called sends their inputs
// along. So a call takes the frames of its barrier alone, where the barrier and then a program take
// twice as many.
//
// In the form `dissemination` each rank comes to have all inputs and sums them up for itself. In
// the form `tree` the root has them all, and its sum goes down with the word that all have called.
// The sum is the one that programs make. THREAD: reactor's driver only.
#pragma once

#include "paceline/core/collective/agreement/gathered_blocks.h"
#include "paceline/core/collective/call/request.h"
#include "paceline/core/collective/call/traffic.h"

namespace paceline::collective {

class GatheredInputs final : public BarrierCargo {
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

  // `request`: an all_reduce whose input is copied. `traffic` outlives it. REQUIRES: ranks > 1.
  GatheredInputs(FingerprintBarrier::Form form, int rank, int ranks, const Request& request,
                 Traffic& traffic);

  Bytes told_in(const FingerprintBarrier::Frame& frame) override;
  bool put(const FingerprintBarrier::Frame& frame, Bytes payload) override;
  // Writes the output, unless a frame has brought it or it was written before. REQUIRES: the
  // barrier is complete.
  void finish();
  bool is_finished() const { return is_finished_; }

 private:
  const int ranks_;
  const ReduceOp op_;
  const ConstBuffer input_;
  const Buffer output_;
  Traffic& traffic_;
  GatheredBlocks blocks_;
  bool is_finished_ = false;
};

}  // namespace paceline::collective
