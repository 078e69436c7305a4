// Naps: look after what ends without a descriptor of its own, such as the work of a device, while
// the reactor's driver sleeps: it is woken after a nap, the later the longer that takes.
//
// THREAD: reactor's driver only.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::transport {

class Naps {
 public:
  explicit Naps(Reactor& reactor) : reactor_(reactor) {}
  ~Naps() { cancel(); }
  Naps(const Naps&) = delete;
  Naps& operator=(const Naps&) = delete;

  // The next wait begins with the shortest nap.
  void begin_anew() { nap_ = kShortest; }
  // Called by the Pollable that looks, as its own set_asleep().
  void set_asleep(bool asleep) {
    cancel();
    if (!asleep) return;
    timer_ = reactor_.poller().after(nap_, [this] { timer_.reset(); });
    nap_ = std::min<Clock::duration>(2 * nap_, kLongest);
  }

 private:
  // A look costs some microseconds: at the longest nap well under 1 % of a core.
  static constexpr std::chrono::microseconds kShortest{20}, kLongest{2000};

  void cancel() {
    if (timer_) reactor_.poller().cancel(*timer_);
    timer_.reset();
  }

  Reactor& reactor_;
  Clock::duration nap_ = kShortest;
  std::optional<Poller::TimerId> timer_;
};

}  // namespace paceline::transport
