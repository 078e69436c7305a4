#include "paceline/core/collective/agreement/fingerprint_barrier.h"

#include <algorithm>

#include "paceline/core/collective/building/balanced_tree.h"

namespace paceline::collective {

FingerprintBarrier::FingerprintBarrier(Form form, int rank, int ranks) {
  if (form == Form::tree) climb(rank, ranks);
  else disseminate(rank, ranks);
}

void FingerprintBarrier::add(const Frame& frame) {
  steps_.push_back({frame});
  if (!frame.is_told) ++unheard_;
}

void FingerprintBarrier::disseminate(int rank, int ranks) {
  std::uint32_t round = 0;
  for (int distance = 1; distance < ranks; distance *= 2, ++round) {
    const int known = std::min(distance, ranks - distance);
    add({true, (rank + distance) % ranks, round, known, distance});
    add({false, (rank - distance + ranks) % ranks, round, known, distance});
  }
}

void FingerprintBarrier::climb(int rank, int ranks) {
  const auto levels = static_cast<std::uint32_t>(tree_levels(ranks));
  const auto known_to = [&](int child, int distance) { return std::min(distance, ranks - child); };
  std::vector<Frame> down;
  int distance = 1;
  std::uint32_t level = 0;
  for (; level < levels && rank % (2 * distance) == 0; distance *= 2, ++level) {
    const int child = rank + distance;
    if (child >= ranks) continue;
    add({false, child, level, known_to(child, distance), distance});
    down.push_back({true, child, levels + level, 0, distance});
  }
  if (rank > 0) {
    add({true, rank - distance, level, known_to(rank, distance), distance});
    add({false, rank - distance, levels + level, 0, distance});
  }
  std::for_each(down.rbegin(), down.rend(), [this](const Frame& frame) { add(frame); });
}

std::optional<FingerprintBarrier::Frame> FingerprintBarrier::next() {
  while (next_ < steps_.size()) {
    const Step& step = steps_[next_];
    if (!step.frame.is_told && !step.is_done) return std::nullopt;
    ++next_;
    if (step.frame.is_told) return step.frame;
  }
  return std::nullopt;
}

std::optional<FingerprintBarrier::Frame> FingerprintBarrier::hear(int peer, std::uint32_t round) {
  for (Step& step : steps_) {
    const Frame& frame = step.frame;
    if (frame.is_told || step.is_done || frame.rank != peer || frame.round != round) continue;
    step.is_done = true;
    --unheard_;
    return frame;
  }
  return std::nullopt;
}

std::vector<int> FingerprintBarrier::awaited() const {
  std::vector<int> ranks;
  for (const Step& step : steps_) {
    if (!step.frame.is_told && !step.is_done) ranks.push_back(step.frame.rank);
  }
  return ranks;
}

bool FingerprintBarrier::awaits(int peer) const {
  return std::ranges::count(awaited(), peer) > 0;
}

}  // namespace paceline::collective
