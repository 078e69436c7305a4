// The workers on this host, each under a shim.
#pragma once

#include <map>
#include <vector>

#include "paceline/app/launch/output/output.h"
#include "paceline/app/launch/process/worker_process.h"
#include "paceline/app/launch/workers/worker_host.h"
#include "paceline/core/transport/reactor/poller.h"

namespace paceline::launch {

class LocalWorkers final : public WorkerHost {
 public:
  // `common` is the part of the orders that all workers share. Makes this process the subreaper of
  // everything below. REQUIRES one thread.
  LocalWorkers(transport::Poller& poller, Output& output, WorkerEvents events, ShimOrders common);
  ~LocalWorkers() override;  // leaves nothing behind, even after an exception

  // THROWS Error (io) that names the rank.
  void start(const ProcessPlace& place, Environment environment, int input);

  void forward(int signal) override;
  void kill() override;
  bool empty() const override { return workers_.empty(); }
  void end(int exit_code) override;
  // Kills everything below this process that was not there before the workers. False: something
  // still runs when the deadline passes.
  bool kill_all(Deadline deadline);

 private:
  void read_status(int rank);
  void shim_ended(int rank);
  void give_up();

  transport::Poller& poller_;
  Output& output_;
  const WorkerEvents events_;
  const ShimOrders common_;
  const std::vector<pid_t> not_ours_;     // older children, e.g. after `exec paceline` in a shell
  std::map<int, WorkerProcess> workers_;  // those whose shims have not ended
  bool a_shim_was_killed_ = false;
};

// A job may need thousands of pipes: raises the limit of open files to the hard limit. Returns the
// previous limit, which the workers get.
rlimit raise_open_files();

}  // namespace paceline::launch
