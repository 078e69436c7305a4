// Measures seconds of real time, for figures that people read.
#pragma once

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

}  // namespace paceline
