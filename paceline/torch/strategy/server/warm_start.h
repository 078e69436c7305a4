// WarmStart: steps that this rank makes alone, while the other ranks wait for it.
#pragma once

#include <functional>
#include <memory>

#include "paceline/core/job/job.h"

namespace paceline::strategy {

// While it lives, the others wait. THREAD: that which trains.
class WarmStart {
 public:
  // `end` lets them go on, and ends this object.
  WarmStart(Job& job, std::function<void()> end);
  ~WarmStart();
  WarmStart(const WarmStart&) = delete;
  WarmStart& operator=(const WarmStart&) = delete;

 private:
  class Started;
  std::shared_ptr<Started> started_;
  friend void end_warm_starts(Job& job);
};

// Before this rank waits for all others, as for a pause: none of them waits for it any more.
void end_warm_starts(Job& job);

}  // namespace paceline::strategy
