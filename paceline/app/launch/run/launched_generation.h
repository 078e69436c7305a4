// One generation of a job: its store, its workers on all hosts, and how they ended.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/app/launch/agent/remote_workers.h"
#include "paceline/app/launch/ending/successions.h"
#include "paceline/app/launch/ending/supervisor.h"
#include "paceline/app/launch/output/input.h"
#include "paceline/app/launch/output/output.h"
#include "paceline/app/launch/process/signals.h"
#include "paceline/app/launch/run/placement.h"
#include "paceline/app/launch/run/run_options.h"
#include "paceline/app/launch/run/stragglers.h"
#include "paceline/app/launch/workers/local_workers.h"
#include "paceline/core/membership/store/store_server.h"

namespace paceline::launch {

// The connections to agents, by the number of their host. A host without one is reached by ssh.
using Agents = std::map<std::size_t, AgentChannel>;

// The parts of a run that outlive a generation, and so a LaunchedGeneration.
struct RunContext {
  const RunOptions& options;
  const Placement& placement;
  transport::Poller& poller;
  SignalWatch& signals;
  Output& output;
  const membership::Secret& secret;
  int secret_file;
  const std::string& job;  // its id
  rlimit open_files;       // the workers'
  Deadline timeout_at;
  const std::function<void(const std::string& lines)>& say;
};

class LaunchedGeneration {
 public:
  // Opens the store. THROWS Error: misuse, the port that was asked for is taken; io.
  LaunchedGeneration(const RunContext& parts, int generation,
                     std::function<void(std::uint64_t step)> on_saved);
  ~LaunchedGeneration();  // leaves nothing behind, even after an exception
  LaunchedGeneration(const LaunchedGeneration&) = delete;
  LaunchedGeneration& operator=(const LaunchedGeneration&) = delete;

  // THROWS Error (io) that names the rank.
  void start(Agents agents);

  void on_signal(int number) { carry_out(supervisor_.on_signal(number, Clock::now())); }
  void on_output_lost(int error) { carry_out(supervisor_.on_output_lost(error, Clock::now())); }
  void on_timer();
  Deadline next_timer() const;

  // All workers have ended and all they wrote was read, or the time for that has passed.
  bool is_over();
  Outcome outcome() const { return supervisor_.outcome(); }
  const std::vector<RankRecord>& records() const { return supervisor_.records(); }
  bool anyone_joined() const { return store_.anyone_joined(); }

  // To be called once it is over: either the last words to all hosts,
  void end(int exit_code);
  // or, for another generation, the agents that can be used again. Nothing: a process on this host
  // could not be killed.
  std::optional<Agents> release();

 private:
  WorkerEvents events();
  void start_here(const AgentOrders& orders);
  void start_there(std::size_t host, AgentOrders orders, Agents& agents);
  // For servers that are replicated.
  membership::StoreServerOptions store_options(std::function<void(std::uint64_t step)> on_saved);
  void on_linked(int member);
  void on_server_report(int server, Bytes report);
  // `not_started`: why the process did not begin; empty: it did.
  void on_ended(int member, int wait_status, Clock::time_point when,
                const std::string& not_started = {});
  void on_server_death(int server, int wait_status, Clock::time_point when,
                       const std::string& not_started);
  void replace(int server, int wait_status, Clock::time_point when, const std::string& not_started);
  void start_server(int member, std::size_t host);
  void tell_map();
  void tell_long_waits(Clock::time_point now);
  void carry_out(const Actions& actions);

  const RunContext parts_;
  const int generation_;
  membership::StoreServer store_;
  Input input_;
  Supervisor supervisor_;
  std::optional<Successions> successions_;
  std::map<int, std::size_t> hosts_of_servers_;  // by member
  std::map<std::size_t, AgentOrders> orders_;    // by host
  Environment inherited_;                        // by workers here
  Starting starting_;
  Finishing finishing_;
  LocalWorkers* here_ = nullptr;  // none: no rank is on this host
  std::map<std::size_t, RemoteWorkers*> there_;
  // Agents come first: what they are reached by is older than the workers here, and is spared when
  // everything below these is killed.
  std::vector<std::unique_ptr<WorkerHost>> hosts_;
};

}  // namespace paceline::launch
