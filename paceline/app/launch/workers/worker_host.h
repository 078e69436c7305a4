// The launcher's view of the workers of one host: this one (local_workers.h) or another
// (remote_workers.h).
#pragma once

#include <functional>
#include <string>

#include "paceline/core/base/deadline.h"

namespace paceline::launch {

// The events of the workers; called from within Poller::wait.
struct WorkerEvents {
  using Moment = Clock::time_point;
  std::function<void(int rank, int pid)> started;
  std::function<void(int rank, const std::string& why, Moment)> not_started;
  std::function<void(int rank, int wait_status, Moment)> ended;
  // Its state is unknown from now on.
  std::function<void(int rank, const std::string& why)> lost = {};
};

class WorkerHost {
 public:
  virtual ~WorkerHost() = default;
  virtual void forward(int signal) = 0;  // to the process group of every worker
  virtual void kill() = 0;               // everything below the shims
  virtual bool empty() const = 0;        // all have ended or are lost; no output is to come
  // Called last: tells the host's part how the run ended, and leaves nothing of it behind.
  virtual void end(int exit_code) = 0;
};

}  // namespace paceline::launch
