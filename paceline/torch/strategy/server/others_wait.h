// OthersWait: other ranks may wait for what this one does in its steps: those that it makes alone in a
// warm start, or its contributions to a consensus. It must tell them before it stands still.
#pragma once

#include <functional>
#include <memory>

#include "paceline/core/job/job.h"

namespace paceline::strategy {

// While it lives, others may wait. THREAD: that which trains.
class OthersWait {
 public:
  // `end` lets them go on, and may wait until all ranks rest; it may end this object.
  OthersWait(Job& job, std::function<void()> end);
  ~OthersWait();
  OthersWait(const OthersWait&) = delete;
  OthersWait& operator=(const OthersWait&) = delete;

 private:
  class Started;
  std::shared_ptr<Started> started_;
  friend void let_others_go_on(Job& job);
};

// Before this rank waits for all others, as for a pause: none of them waits for it any more.
void let_others_go_on(Job& job);

}  // namespace paceline::strategy
