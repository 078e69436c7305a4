// SpinRule: when a thread that looks again and again for what others send leaves its core to them.
//
// A thread that keeps its core sees the news at once. But if the sender waits for that same core,
// nothing comes before the thread sleeps. Nobody tells a thread where the sender runs: launchers
// that bind nobody let two ranks come to sit on one core. So it learns from its waits: if several
// in a row brought nothing, it yields from then on, soon after a wait has begun. Now and then it
// keeps its core for a while longer, and goes back to that if news come meanwhile.
//
// THREAD: one at a time.
#pragma once

#include <chrono>

namespace paceline::transport {

class SpinRule {
 public:
  using Duration = std::chrono::nanoseconds;

  static constexpr std::chrono::microseconds kYieldAfter{20};  // of a wait
  static constexpr std::chrono::microseconds kTrial{100};      // a spin in vain is as long at least
  static constexpr int kMostVain = 3;     // waits in a row that only ended by sleep
  static constexpr int kTrialEvery = 16;  // waits that would yield

  // Whether to yield, when looks have found nothing for `waited`.
  bool yields(Duration waited) const {
    return yields_ && waited >= (is_trial() ? kTrial : kYieldAfter);
  }
  // A look has found something, the first one for `waited`.
  void found(Duration waited);
  // Nothing has come for `waited`: the thread sleeps now.
  void gave_up(Duration waited);

 private:
  bool is_trial() const { return waits_ % kTrialEvery == 0; }

  bool yields_ = false;
  int vain_ = 0;
  unsigned waits_ = 1;  // that were long enough to yield, since it yields
};

}  // namespace paceline::transport
