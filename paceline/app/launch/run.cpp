#include "paceline/app/launch/run.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <utility>

#include "paceline/app/launch/descendants.h"
#include "paceline/app/launch/ending.h"
#include "paceline/app/launch/environment.h"
#include "paceline/app/launch/host.h"
#include "paceline/app/launch/input.h"
#include "paceline/app/launch/output.h"
#include "paceline/app/launch/secret_file.h"
#include "paceline/app/launch/signals.h"
#include "paceline/app/launch/supervisor.h"
#include "paceline/app/launch/worker_process.h"
#include "paceline/core/membership/store_server.h"
#include "paceline/core/transport/poller.h"

namespace paceline::launch {
namespace {

using membership::Secret;
using membership::StoreServer;

Clock::time_point moment_of(std::int64_t stamp_ns) {
  return Clock::time_point(std::chrono::nanoseconds(stamp_ns));
}

// Thousands of pipes: as many descriptors as the hard limit allows. Workers get the limit that was.
rlimit raise_open_files() {
  rlimit before = {};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit raised = before;
  raised.rlim_cur = raised.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return before;
}

// A port that the user asked for and cannot be had is the user's to change; any other failure is
// the host's.
StoreServer open_store(transport::Poller& poller, membership::StoreServerOptions options) {
  const bool asked_for = options.port != 0;
  try {
    return StoreServer(poller, std::move(options));
  } catch (const Error& error) {
    if (!asked_for) throw;
    throw_misuse(fmt::format("--store: {}; give another port, or leave --store out", error.what()));
  }
}

class Run {
 public:
  explicit Run(const RunOptions& options);
  ~Run();
  int drive();

 private:
  void start_workers();
  void start_worker(int rank, const ShimOrders& common);
  void read_status(int rank);
  void shim_ended(int rank);
  void carry_out(const Actions& actions);
  void give_up();
  bool finished();
  int finish();

  const RunOptions& options_;
  const std::vector<pid_t> not_ours_;  // children from before, as after `exec paceline` in a shell
  transport::Poller poller_;
  SignalWatch signals_;
  const rlimit open_files_;
  const Secret secret_;
  const std::string job_;
  StoreServer store_;
  Output output_;
  Input input_;
  Supervisor supervisor_;
  std::map<int, WorkerProcess> workers_;  // whose shims have not ended
  bool a_shim_was_killed_ = false;
};

Run::Run(const RunOptions& options)
    : options_(options),
      not_ours_(children()),
      signals_(poller_,
               [this](int number) { carry_out(supervisor_.on_signal(number, Clock::now())); }),
      open_files_(raise_open_files()),
      secret_(Secret::random()),
      job_(random_job_id()),
      store_(open_store(poller_, {.host = options.store_host,
                                  .port = options.store_port,
                                  .job = job_,
                                  .generation = 1,
                                  .world_size = options.processes,
                                  .secret = secret_,
                                  .on_report =
                                      [this](const membership::WorkerReport& report) {
                                        carry_out(
                                            supervisor_.on_report(report.rank, report.failure));
                                      }})),
      output_(poller_, {.prefix = options.prefix, .colour = ::getenv("NO_COLOR") == nullptr},
              [this](int error) { carry_out(supervisor_.on_output_lost(error, Clock::now())); }),
      input_(poller_),
      supervisor_(
          {.world_size = options.processes, .grace = options.grace, .timeout = options.timeout},
          Clock::now()) {}

// Also after an exception: nothing may be left behind.
Run::~Run() {
  for (const auto& [rank, worker] : workers_) poller_.forget(worker.status());
  if (!workers_.empty()) give_up();
  ::setrlimit(RLIMIT_NOFILE, &open_files_);
}

void Run::start_workers() {
  const auto secret = secret_file(secret_.hexadecimal());
  const ShimOrders common{.program = options_.program,
                          .command = options_.command,
                          .secret = secret.get(),
                          .signal_mask = signals_.original_mask(),
                          .pipe_action = signals_.original_pipe_action(),
                          .open_files = open_files_};
  const JobVariables job{.world_size = options_.processes,
                         .job = job_,
                         .store = store_.address(),
                         .transport = options_.transport,
                         .determinism = options_.determinism,
                         .operation_timeout = options_.operation_timeout,
                         .master_port = free_port(),
                         .usable_cores = usable_cores()};
  const Environment inherited = own_environment();
  for (int rank = 0; rank < options_.processes; ++rank) {
    ShimOrders orders = common;
    orders.environment = worker_environment(inherited, job, rank);
    orders.input = input_.descriptor_for(rank);
    start_worker(rank, orders);
  }
  input_.workers_started();
}

void Run::start_worker(int rank, const ShimOrders& orders) {
  auto started = WorkerProcess::start(orders);
  if (!started) {
    throw Error(
        {started.error().fault, fmt::format("rank {}: {}", rank, started.error().what), {}});
  }
  WorkerProcess& worker = workers_.emplace(rank, std::move(*started)).first->second;
  output_.add(rank, worker.take_output(), worker.take_error());
  poller_.watch(worker.status(), EPOLLIN, [this, rank](std::uint32_t) { read_status(rank); });
}

void Run::read_status(int rank) {
  const auto message = workers_.at(rank).read();
  if (!message) return shim_ended(rank);
  const auto stamp = moment_of(message->stamp_ns);
  switch (message->kind) {
    case ShimMessage::Kind::started: return supervisor_.on_started(rank, message->pid);
    case ShimMessage::Kind::not_started:
      return carry_out(supervisor_.on_not_started(
          rank, fmt::format("cannot execute {}: {}", options_.program, ::strerror(message->value)),
          stamp));
    case ShimMessage::Kind::ended:
      return carry_out(supervisor_.on_exit(rank, message->value, stamp));
  }
}

void Run::shim_ended(int rank) {
  const auto worker = workers_.extract(rank);
  poller_.forget(worker.mapped().status());
  int status = 0;
  ::waitpid(worker.mapped().shim(), &status, 0);
  if (!WIFSIGNALED(status)) return;
  // Somebody killed the shim, and the kernel its worker with it; the rest below it is ours now.
  a_shim_was_killed_ = true;
  carry_out(supervisor_.on_exit(rank, SIGKILL, Clock::now()));
}

void Run::carry_out(const Actions& actions) {
  for (const Action& action : actions) {
    if (action.kind == Action::Kind::tell) store_.tell(action.verdict);
    for (auto& [rank, worker] : workers_) {
      if (action.kind == Action::Kind::forward) worker.forward(action.signal);
      if (action.kind == Action::Kind::kill) worker.kill();
    }
  }
}

// Cuts every lifeline and kills what the shims do not: after this nothing below us runs, unless the
// kernel holds it.
void Run::give_up() {
  for (auto& [rank, worker] : workers_) worker.kill();
  const Deadline deadline = Deadline::in(std::chrono::milliseconds(200));
  for (auto& [rank, worker] : workers_) {
    while (::waitpid(worker.shim(), nullptr, WNOHANG) == 0 && !deadline.passed()) ::usleep(1000);
  }
  kill_descendants(Deadline::in(std::chrono::milliseconds(100)), not_ours_);
}

int Run::drive() {
  become_subreaper();
  start_workers();
  while (!finished()) {
    poller_.wait(supervisor_.next_timer());
    carry_out(supervisor_.on_timer(Clock::now()));
  }
  return finish();
}

bool Run::finished() {
  if (supervisor_.end_by().passed()) return true;
  if (!supervisor_.settled() || !workers_.empty()) return false;
  output_.writers_are_gone();
  return output_.all_written();
}

int Run::finish() {
  if (!workers_.empty() || a_shim_was_killed_) give_up();
  const Outcome outcome = supervisor_.outcome();
  std::string last = describe_ending(outcome, supervisor_.records(), host_name());
  if (const auto lost = output_.waiting(); lost > 0) {
    last += fmt::format("paceline: {} bytes of output were dropped: nobody read them\n", lost);
  }
  output_.say(last);
  const Deadline patience = Deadline::in(std::chrono::milliseconds(100));
  while (output_.waiting() > 0 && !patience.passed()) poller_.wait(patience);
  return outcome.exit_code;
}

}  // namespace

int run(const RunOptions& options) {
  return Run(options).drive();
}

}  // namespace paceline::launch
