// How the members of a group learn that all have called the same, in lg n rounds of one frame a
// rank: the dissemination barrier (Hensgen, Finkel, Manber 1988), with the call's fingerprint.
//
// In round k each rank tells the one 2^k places after it that the 2^k ranks up to itself have
// called the same; it may do so once it has heard so in all rounds before. Who has heard of all
// rounds knows of all ranks. 5 ranks, whom rank 0 tells and hears:
//     round    tells     hears
//       0      rank 1    rank 4
//       1      rank 2    rank 3
//       2      rank 4    rank 1
//
// Nobody is named by it: where calls differ or a rank stays away, the others fall back to telling
// every member all of the call (execution.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/core/collective/call/request.h"

namespace paceline::collective {

class Assent {
 public:
  // Below this telling every member takes no more than two frames a round.
  static constexpr int kFewestRanks = 8;
  // The index of a frame that tells whoever asks for an operation that all have called it.
  static constexpr std::uint32_t kOfAll = ~std::uint32_t{0};

  // True for a call of which all ranks say the same: it has no weight and no note of its own.
  static bool suits(const Request& request);

  Assent(int rank, int ranks);

  // Whom to tell next, and in which round; nothing while something must be heard before.
  struct Telling {
    int rank;
    std::uint32_t round;
  };
  std::optional<Telling> next();

  // `peer` has told of round `round`. False: it must not, or has done so before.
  bool hear(int peer, std::uint32_t round);
  bool is_complete() const { return heard_count_ == heard_.size(); }
  // Whether `peer` has still to tell of a round.
  bool awaits(int peer) const;

 private:
  int place(int steps) const { return (rank_ + steps % ranks_ + ranks_) % ranks_; }

  const int rank_;
  const int ranks_;
  std::vector<bool> heard_;  // by round
  std::size_t heard_count_ = 0;
  std::size_t told_ = 0;  // rounds
};

}  // namespace paceline::collective
