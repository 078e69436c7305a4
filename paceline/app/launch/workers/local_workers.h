// The workers on this host: one shim each.
#pragma once

#include <map>
#include <vector>

#include "paceline/app/launch/output/output.h"
#include "paceline/app/launch/process/worker_process.h"
#include "paceline/app/launch/workers/worker_host.h"
#include "paceline/core/transport/poller.h"

namespace paceline::launch {

class LocalWorkers final : public WorkerHost {
 public:
  // `common`: what the orders of all of them share. REQUIRES one thread. Becomes the subreaper of
  // all that is below.
  LocalWorkers(transport::Poller& poller, Output& output, WorkerEvents events, ShimOrders common);
  ~LocalWorkers() override;  // nothing is left behind, also after an exception

  // THROWS Error (io) that names the rank.
  void start(const Place& place, Environment environment, int input);

  void forward(int signal) override;
  void kill() override;
  bool empty() const override { return workers_.empty(); }
  void end(int exit_code) override;

 private:
  void read_status(int rank);
  void shim_ended(int rank);
  void give_up();

  transport::Poller& poller_;
  Output& output_;
  const WorkerEvents events_;
  const ShimOrders common_;
  const std::vector<pid_t> not_ours_;  // children from before, as after `exec paceline` in a shell
  std::map<int, WorkerProcess> workers_;  // whose shims have not ended
  bool a_shim_was_killed_ = false;
};

// Thousands of pipes: as many descriptors as the hard limit allows. Returns the limit that was, for
// workers.
rlimit raise_open_files();

}  // namespace paceline::launch
