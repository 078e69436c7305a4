// The workers of one host, on this one (local_workers.h) or another (remote_workers.h), as the
// launcher sees them.
#pragma once

#include <functional>
#include <string>

#include "paceline/core/base/deadline.h"

namespace paceline::launch {

// What happens to them. Called from within Poller::wait.
struct WorkerEvents {
  using Moment = Clock::time_point;
  std::function<void(int rank, int pid)> started;
  std::function<void(int rank, const std::string& why, Moment)> not_started;
  std::function<void(int rank, int wait_status, Moment)> ended;
  std::function<void(int rank, const std::string& why)> lost = {};  // nobody can tell any more
};

class WorkerHost {
 public:
  virtual ~WorkerHost() = default;
  virtual void forward(int signal) = 0;  // to the process group of every worker
  virtual void kill() = 0;               // everything below the shims
  virtual bool empty() const = 0;  // all have ended, or are lost, and nothing of them is to come
  // Called last; the host's part is told how the run ended, and nothing of it is left.
  virtual void end(int exit_code) = 0;
};

}  // namespace paceline::launch
