// Measures seconds of real time, and of a thread, for figures that people read.
#pragma once

#include <time.h>

#include <chrono>

#include "paceline/core/base/deadline.h"

namespace paceline {

class Stopwatch {
 public:
  double seconds() const {  // since construction or restart()
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }
  void restart() { begin_ = Clock::now(); }

 private:
  Clock::time_point begin_ = Clock::now();
};

// Adds its lifetime to a sum.
class StopwatchScope {
 public:
  explicit StopwatchScope(double& sum) : sum_(sum) {}
  ~StopwatchScope() { sum_ += watch_.seconds(); }
  StopwatchScope(const StopwatchScope&) = delete;
  StopwatchScope& operator=(const StopwatchScope&) = delete;

 private:
  double& sum_;
  const Stopwatch watch_;
};

// Processor seconds that this thread has used.
inline double thread_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace paceline
