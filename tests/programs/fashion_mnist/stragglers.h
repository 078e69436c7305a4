// Steps of a least length, and ranks that take longer: what --pace and --slow ask for.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "paceline/core/base/seed.h"
#include "rank_and_factor.h"

constexpr int kDrawnRank = -1;  // another one in each step

// Empty: the text is one of --slow.
inline std::string complaint_about_slow(const std::string& text) {
  const auto slow = rank_and_factor_in(text, kDrawnRank);
  return slow && slow->factor >= 1 && slow->factor <= 1e6
             ? ""
             : text + " is no RANK:FACTOR or drawn:FACTOR with a factor of 1 to 1000000, as in 0:5";
}

// The rank that is slow in a step. It follows from the seed and the step alone, so that all ranks
// draw the same one without a message, and a run that is resumed draws it again.
inline int drawn_rank(std::uint64_t seed, std::int64_t step, int ranks) {
  constexpr std::uint64_t kStragglers = 0x736c6f77;  // other numbers than those of the images
  paceline::SeededNumbers numbers(
      paceline::mix(paceline::mix(kStragglers, seed), static_cast<std::uint64_t>(step)));
  return static_cast<int>(numbers.below(static_cast<std::uint64_t>(ranks)));
}

// Holds this rank back until its step is as long as it must be. It sleeps where the step would
// compute: before the replicas are brought together.
class Pace {
 public:
  // `milliseconds` 0: no step is held back. `slow`: nobody, or the text of --slow.
  Pace(double milliseconds, const std::string& slow, std::uint64_t seed, int rank, int ranks)
      : milliseconds_(milliseconds),
        slow_(rank_and_factor_in(slow, kDrawnRank)),
        seed_(seed),
        rank_(rank),
        ranks_(ranks) {}

  void begin_step() { begun_ = std::chrono::steady_clock::now(); }

  void hold_back(std::int64_t step) const {
    if (milliseconds_ <= 0) return;
    const std::chrono::duration<double, std::milli> least(milliseconds_ * factor_of(step));
    std::this_thread::sleep_until(
        begun_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(least));
  }

 private:
  double factor_of(std::int64_t step) const {
    if (!slow_) return 1;
    const int rank = slow_->rank == kDrawnRank ? drawn_rank(seed_, step, ranks_) : slow_->rank;
    return rank == rank_ ? slow_->factor : 1;
  }

  double milliseconds_;
  std::optional<RankAndFactor> slow_;
  std::uint64_t seed_;
  int rank_, ranks_;
  std::chrono::steady_clock::time_point begun_{};
};
