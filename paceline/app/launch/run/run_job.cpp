#include "paceline/app/launch/run/run_job.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "paceline/app/launch/agent/agent.h"
#include "paceline/app/launch/agent/remote_workers.h"
#include "paceline/app/launch/ending/ending.h"
#include "paceline/app/launch/ending/supervisor.h"
#include "paceline/app/launch/hosts/host.h"
#include "paceline/app/launch/output/input.h"
#include "paceline/app/launch/output/output.h"
#include "paceline/app/launch/process/secret_file.h"
#include "paceline/app/launch/process/signals.h"
#include "paceline/app/launch/run/placement.h"
#include "paceline/app/launch/workers/local_workers.h"
#include "paceline/core/membership/store/store_server.h"
#include "paceline/core/transport/reactor/poller.h"

namespace paceline::launch {
namespace {

using membership::Secret;
using membership::StoreServer;

// The user must change a port that was asked for and is taken (misuse); any other failure is the
// host's.
StoreServer open_store(transport::Poller& poller, membership::StoreServerOptions options) {
  const bool asked_for = options.port != 0;
  try {
    return StoreServer(poller, std::move(options));
  } catch (const Error& error) {
    if (!asked_for) throw;
    throw_misuse(fmt::format("--store: {}; give another port, or leave --store out", error.what()));
  }
}

// The end of a run that went well without one: most likely its program does not call init().
std::string nobody_joined(int processes) {
  return fmt::format(
      "paceline: no process joined the run: {} processes ran, each for itself. A program joins by "
      "calling paceline::init() at its start\n",
      processes);
}

class Run {
 public:
  // `nodes`: launchers of other nodes that have come (--nnodes).
  Run(const RunOptions& options, std::vector<AgentChannel> nodes);
  ~Run();
  int drive();

 private:
  WorkerEvents events();
  void start_workers();
  void start_here(const AgentOrders& orders);
  void start_there(const PlacedHost& host, AgentOrders orders, std::size_t node);
  void carry_out(const Actions& actions);
  bool finished();
  int finish();

  const RunOptions& options_;
  const Placement placement_;
  std::vector<AgentChannel> nodes_;
  transport::Poller poller_;
  SignalWatch signals_;
  const rlimit open_files_;
  const Secret secret_;
  const std::string job_;
  StoreServer store_;
  LogFiles files_;
  Output output_;
  Input input_;
  Supervisor supervisor_;
  transport::FileDescriptor secret_file_;
  std::vector<std::unique_ptr<WorkerHost>> hosts_;
};

Run::Run(const RunOptions& options, std::vector<AgentChannel> nodes)
    : options_(options),
      placement_(place(options)),
      nodes_(std::move(nodes)),
      signals_(poller_,
               [this](int number) { carry_out(supervisor_.on_signal(number, Clock::now())); }),
      open_files_(raise_open_files()),
      secret_(options.nodes.secret ? *options.nodes.secret : Secret::random()),
      job_(random_job_id()),
      store_(open_store(poller_, {.host = placement_.listen_host,
                                  .port = options.store_port,
                                  .job = job_,
                                  .generation = 1,
                                  .world_size = placement_.world_size,
                                  .secret = secret_,
                                  .on_report =
                                      [this](const membership::WorkerReport& report) {
                                        carry_out(
                                            supervisor_.on_report(report.rank, report.failure));
                                      }})),
      files_(options.logs),
      output_(
          poller_,
          {.prefix = options.prefix, .colour = ::getenv("NO_COLOR") == nullptr, .files = &files_},
          [this](int error) { carry_out(supervisor_.on_output_lost(error, Clock::now())); }),
      input_(poller_),
      supervisor_(
          {.world_size = placement_.world_size, .grace = options.grace, .timeout = options.timeout},
          Clock::now()) {}

// Leaves nothing behind, even after an exception.
Run::~Run() {
  hosts_.clear();
  ::setrlimit(RLIMIT_NOFILE, &open_files_);
}

WorkerEvents Run::events() {
  return {.started = [this](int rank, int pid) { supervisor_.on_started(rank, pid); },
          .not_started =
              [this](int rank, const std::string& why, Clock::time_point when) {
                carry_out(supervisor_.on_not_started(rank, why, when));
              },
          .ended =
              [this](int rank, int status, Clock::time_point when) {
                carry_out(supervisor_.on_exit(rank, status, when));
              },
          .lost =
              [this](int rank, const std::string& why) {
                carry_out(supervisor_.on_lost(rank, why, Clock::now()));
              }};
}

void Run::start_workers() {
  const JobVariables job{.world_size = placement_.world_size,
                         .job = job_,
                         .store = store_.address(),
                         .transport = options_.transport,
                         .determinism = options_.determinism,
                         .operation_timeout = options_.operation_timeout,
                         .master_address = placement_.master_address,
                         .master_port = free_port(),
                         .usable_cores = usable_cores()};
  secret_file_ = secret_file(secret_.hexadecimal());
  for (std::size_t i = 0; i < placement_.hosts.size(); ++i) {
    const PlacedHost& host = placement_.hosts[i];
    const AgentOrders orders = orders_for(options_, placement_, job, i);
    host.here ? start_here(orders) : start_there(host, orders, i);
  }
  input_.workers_started();
}

void Run::start_here(const AgentOrders& orders) {
  auto workers =
      std::make_unique<LocalWorkers>(poller_, output_, events(),
                                     ShimOrders{.program = options_.program,
                                                .command = options_.command,
                                                .secret = secret_file_.get(),
                                                .signal_mask = signals_.original_mask(),
                                                .pipe_action = signals_.original_pipe_action(),
                                                .open_files = open_files_});
  LocalWorkers& here = *workers;
  hosts_.push_back(std::move(workers));
  Environment inherited = own_environment();
  for (const std::string& entry : options_.passed) set_variable(inherited, entry);
  for (const Place& place : places_of(orders)) {
    here.start(place, worker_environment(inherited, orders.job, place),
               input_.descriptor_for(place.rank));
  }
}

void Run::start_there(const PlacedHost& host, AgentOrders orders, std::size_t node) {
  for (int i = 0; i < host.share.count; ++i)
    supervisor_.on_host(host.share.first + i, host.share.name);
  if (nodes_.empty()) orders.secret = secret_.hexadecimal();
  AgentChannel channel =
      nodes_.empty() ? start_agent(options_.ssh, host.share.name, signals_.original_mask()).value()
                     : std::move(nodes_.at(node - 1));
  hosts_.push_back(
      std::make_unique<RemoteWorkers>(poller_, output_, events(), std::move(channel), orders));
}

void Run::carry_out(const Actions& actions) {
  for (const Action& action : actions) {
    if (action.kind == Action::Kind::tell) store_.tell(action.verdict);
    for (const auto& host : hosts_) {
      if (action.kind == Action::Kind::forward) host->forward(action.signal);
      if (action.kind == Action::Kind::kill) host->kill();
    }
  }
}

int Run::drive() {
  start_workers();
  while (!finished()) {
    poller_.wait(supervisor_.next_timer());
    carry_out(supervisor_.on_timer(Clock::now()));
  }
  return finish();
}

bool Run::finished() {
  if (supervisor_.end_by().passed()) return true;
  if (!supervisor_.settled()) return false;
  for (const auto& host : hosts_) {
    if (!host->empty()) return false;
  }
  output_.writers_are_gone();
  return output_.all_written();
}

int Run::finish() {
  const Outcome outcome = supervisor_.outcome();
  // Other hosts end first: ending this one kills every process below, ssh too.
  for (auto host = hosts_.rbegin(); host != hosts_.rend(); ++host) (*host)->end(outcome.exit_code);
  std::string last = describe_ending(outcome, supervisor_.records(), host_name());
  if (outcome.kind == Outcome::Kind::done && placement_.world_size > 1 && !store_.anyone_joined())
    last += nobody_joined(placement_.world_size);
  if (const auto lost = output_.waiting(); lost > 0) {
    last += fmt::format("paceline: {} bytes of output were dropped: nobody read them\n", lost);
  }
  output_.say(last);
  const Deadline patience = Deadline::in(std::chrono::milliseconds(100));
  while (output_.waiting() > 0 && !patience.passed()) poller_.wait(patience);
  return outcome.exit_code;
}

int be_node(const RunOptions& options) {
  AgentOptions agent{.command = options.command, .secret = options.nodes.secret};
  agent.input = join_node_0(options.nodes);
  agent.output = transport::FileDescriptor(::dup(agent.input.get()));
  return run_agent(std::move(agent));
}

}  // namespace

int run(const RunOptions& options) {
  if (options.nodes.nodes > 1 && options.nodes.node_rank > 0) return be_node(options);
  return Run(options,
             options.nodes.nodes > 1 ? await_nodes(options.nodes) : std::vector<AgentChannel>())
      .drive();
}

void dry_run(const RunOptions& options) {
  fmt::print("{}", describe(options, place(options)));
}

}  // namespace paceline::launch
