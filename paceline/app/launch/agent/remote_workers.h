// The workers on another host, which the agent there (agent.h) starts.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "paceline/app/launch/agent/agent_wire.h"
#include "paceline/app/launch/output/output.h"
#include "paceline/app/launch/workers/worker_host.h"
#include "paceline/core/transport/reactor/poller.h"

namespace paceline::launch {

// The connection to an agent: the two pipes of an ssh process, or a socket (then `process` is -1).
struct AgentChannel {
  std::string host;
  pid_t process = -1;
  transport::FileDescriptor from, to;
};

// Starts `ssh_command... host <this executable> run --as-agent`. ssh gets a process group of its
// own, because the launcher itself passes Ctrl-C on.
Result<AgentChannel> start_agent(const std::vector<std::string>& ssh_command,
                                 const std::string& host, const sigset_t& signal_mask);

class RemoteWorkers final : public WorkerHost {
 public:
  // Sends the orders to the agent.
  RemoteWorkers(transport::Poller& poller, Output& output, WorkerEvents events,
                AgentChannel channel, const AgentOrders& orders);
  ~RemoteWorkers() override;

  // A server in the place of another one that has died there.
  void start_server(int member, int server);

  void forward(int signal) override;
  void kill() override;
  bool empty() const override { return drained_ || gone_; }
  void end(int exit_code) override;
  // The connection, for the next generation. Nothing: the host is lost, or its workers have not all
  // ended. To be called last.
  std::optional<AgentChannel> take_channel();

 private:
  void read();
  void heed(const AgentMessage& message);
  void tell(const AgentMessage& message);
  void lose(const std::string& why);
  void give_credit();
  void watch(bool on);

  transport::Poller& poller_;
  Output& output_;
  const WorkerEvents events_;
  AgentChannel channel_;
  Sink to_;
  AgentReader reader_;
  std::set<int> running_;
  std::size_t owed_ = 0;  // bytes of output that were taken, and for which no credit was given
  bool has_answered_ = false, drained_ = false, gone_ = false, watched_ = false;
  Deadline gone_by_;  // counts from end(), so that many hosts that hang cost the time of one
};

}  // namespace paceline::launch
