// A wait for others that is told on stderr when it gets long: at the stall time, and then each time
// after twice as long. The process may block meanwhile.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "paceline/core/base/deadline.h"

namespace paceline::membership {

// The moments at which a wait is told.
class Tellings {
 public:
  explicit Tellings(Clock::duration stall) : stall_(stall), next_(stall) {}

  Deadline next() const { return Deadline::at(begun_ + next_); }
  // Whether the wait is to be told now; the next time is then twice as far away.
  bool is_due();
  double seconds() const;  // waited so far

 private:
  const Clock::duration stall_;
  const Clock::time_point begun_ = Clock::now();
  Clock::duration next_;
};

class ToldWait {
 public:
  // `whom`: for whom and for what this process waits, and what may be wrong. It is called on
  // another thread.
  ToldWait(Clock::duration stall, std::function<std::string()> whom);
  ~ToldWait();
  ToldWait(const ToldWait&) = delete;
  ToldWait& operator=(const ToldWait&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

// "start: 5 s waited for rank 0 ..."
void tell_start(double seconds, const std::string& whom);

}  // namespace paceline::membership
