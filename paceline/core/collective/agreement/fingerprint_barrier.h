// The barrier by which the members of a group learn that all have called the same. It takes about
// 2 lg n frames a rank (assents), which carry the call's fingerprint. It has two forms; 5 ranks:
//
// `dissemination` (Hensgen, Finkel, Manber 1988), where each rank has a processor: lg n rounds. In
// round k each rank tells the one 2^k places after it that the 2^k ranks up to itself have called
// the same; it may do so once it has heard so in all rounds before. Rank 0:
//     round    tells     hears
//       0      rank 1    rank 4
//       1      rank 2    rank 3
//       2      rank 4    rank 1
//
// `tree`, where ranks take turns on processors, so that the frames of all ranks follow each other:
// 2 (n - 1) frames in all. Up the binomial tree each rank tells its parent that its subtree has
// called the same; the root then tells its children that all have, and they tell theirs:
//     up        1 -> 0,  3 -> 2,  2 -> 0,  4 -> 0
//     down      0 -> 4,  0 -> 2,  2 -> 3,  0 -> 1
//
// Its frames can carry data of the ranks that they speak for (gathered_blocks.h): the inputs of a
// short all_reduce, and the weights of an average.
//
// Nobody is named by it: where calls differ or a rank stays away, the others fall back to telling
// every member all of the call (call_agreement.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/core/collective/call/members.h"

namespace paceline::collective {

class FingerprintBarrier {
 public:
  // Below this telling every member takes no more than two frames a round.
  static constexpr int kFewestRanks = Members::kMany;
  // The index of a frame that tells whoever asks for an operation that all have called it.
  static constexpr std::uint32_t kOfAll = ~std::uint32_t{0};

  enum class Form : std::uint8_t { dissemination, tree };
  static Form form_of(const Members& members) {  // the same on all of them
    return members.take_turns() ? Form::tree : Form::dissemination;
  }

  // One frame that this rank tells, or hears.
  struct Frame {
    bool is_told;
    int rank;             // that hears it, or tells it
    std::uint32_t round;  // its index
    int of_ranks;  // they are known to have called; 0: all of them, and the sender has heard so
    int distance;  // from the one to the other
  };

  FingerprintBarrier(Form form, int rank, int ranks);

  // The next frame that this rank tells; nothing while something must be heard before.
  std::optional<Frame> next();

  // Takes the frame of `round` from `peer` and returns which it is. Nothing: it must not come, or
  // has come before.
  std::optional<Frame> hear(int peer, std::uint32_t round);
  bool is_complete() const { return unheard_ == 0; }
  std::vector<int> awaited() const;  // the ranks that have still to tell
  bool awaits(int peer) const;

 private:
  struct Step {
    Frame frame;
    bool is_done = false;
  };
  void disseminate(int rank, int ranks);
  void climb(int rank, int ranks);
  void add(const Frame& frame);

  std::vector<Step> steps_;  // in this order; what is heard may come sooner
  std::size_t next_ = 0;
  std::size_t unheard_ = 0;
};

}  // namespace paceline::collective
