// A moment by which a wait must have ended, on the steady clock, so that clock jumps have no
// effect.
#pragma once

#include <algorithm>
#include <chrono>

namespace paceline {

using Clock = std::chrono::steady_clock;

class Deadline {
 public:
  Deadline() = default;  // never
  static Deadline never() { return {}; }
  static Deadline at(Clock::time_point moment) {
    Deadline d;
    d.moment_ = moment;
    return d;
  }
  // Any duration, also one that the clock cannot count: that is never, or passed.
  template <typename Rep, typename Period>
  static Deadline in(std::chrono::duration<Rep, Period> duration) {
    const auto now = Clock::now();
    const std::chrono::duration<double> seconds = duration;  // cannot overflow
    if (seconds >= Clock::time_point::max() - now) return never();
    if (seconds <= -now.time_since_epoch()) return at(Clock::time_point());
    return at(now + std::chrono::duration_cast<Clock::duration>(duration));
  }

  bool is_never() const { return moment_ == Clock::time_point::max(); }
  bool passed(Clock::time_point now = Clock::now()) const { return now >= moment_; }
  Clock::time_point moment() const { return moment_; }
  // The time left: zero when passed, and at most a day, so that system calls accept it.
  std::chrono::nanoseconds left(Clock::time_point now = Clock::now()) const {
    if (now >= moment_) return std::chrono::nanoseconds(0);
    const std::chrono::nanoseconds day = std::chrono::hours(24);
    return is_never() ? day : std::min<std::chrono::nanoseconds>(moment_ - now, day);
  }
  Deadline sooner(Deadline other) const { return moment_ < other.moment_ ? *this : other; }
  bool operator==(const Deadline&) const = default;

 private:
  Clock::time_point moment_ = Clock::time_point::max();
};

}  // namespace paceline
