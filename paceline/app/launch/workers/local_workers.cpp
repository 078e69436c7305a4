#include "paceline/app/launch/workers/local_workers.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "paceline/app/launch/process/descendants.h"

namespace paceline::launch {
namespace {

Clock::time_point moment_of(std::int64_t stamp_ns) {
  return Clock::time_point(std::chrono::nanoseconds(stamp_ns));
}

}  // namespace

LocalWorkers::LocalWorkers(transport::Poller& poller, Output& output, WorkerEvents events,
                           ShimOrders common)
    : poller_(poller),
      output_(output),
      events_(std::move(events)),
      common_(std::move(common)),
      not_ours_(children()) {
  become_subreaper();
}

LocalWorkers::~LocalWorkers() {
  for (const auto& [rank, worker] : workers_) poller_.forget(worker.status());
  if (!workers_.empty()) give_up();
}

void LocalWorkers::start(const ProcessPlace& place, Environment environment, int input) {
  const int rank = place.rank;
  ShimOrders orders = common_;
  orders.environment = std::move(environment);
  orders.processors = place.processors;
  orders.input = input;
  if (place.server) {
    orders.program = std::filesystem::read_symlink("/proc/self/exe");
    orders.command = {orders.program, "run", "--as-server"};
  }
  auto started = WorkerProcess::start(orders);
  if (!started) {
    const std::string name =
        place.server ? fmt::format("server {}", *place.server) : fmt::format("rank {}", rank);
    throw Error({started.error().fault, fmt::format("{}: {}", name, started.error().what), {}});
  }
  WorkerProcess& worker = workers_.emplace(rank, std::move(*started)).first->second;
  output_.add(rank, worker.take_output(), worker.take_error());
  poller_.watch(worker.status(), EPOLLIN, [this, rank](std::uint32_t) { read_status(rank); });
}

void LocalWorkers::forward(int signal) {
  for (auto& [rank, worker] : workers_) worker.forward(signal);
}

void LocalWorkers::kill() {
  for (auto& [rank, worker] : workers_) worker.kill();
}

void LocalWorkers::end(int) {
  if (!workers_.empty() || a_shim_was_killed_) give_up();
}

void LocalWorkers::read_status(int rank) {
  const auto message = workers_.at(rank).read();
  if (!message) return shim_ended(rank);
  const auto stamp = moment_of(message->stamp_ns);
  switch (message->kind) {
    case ShimMessage::Kind::started: return events_.started(rank, message->pid);
    case ShimMessage::Kind::not_started:
      return events_.not_started(
          rank, fmt::format("cannot execute {}: {}", common_.program, ::strerror(message->value)),
          stamp);
    case ShimMessage::Kind::ended: return events_.ended(rank, message->value, stamp);
  }
}

void LocalWorkers::shim_ended(int rank) {
  const auto worker = workers_.extract(rank);
  poller_.forget(worker.mapped().status());
  int status = 0;
  ::waitpid(worker.mapped().shim(), &status, 0);
  if (!WIFSIGNALED(status)) return;
  // The shim was killed, so the kernel killed its worker too; other processes below it are ours
  // now.
  a_shim_was_killed_ = true;
  events_.ended(rank, SIGKILL, Clock::now());
}

bool LocalWorkers::kill_all(Deadline deadline) {
  for (auto& [rank, worker] : workers_) worker.kill();
  return kill_descendants(deadline, not_ours_);
}

// Cuts every lifeline and kills the processes that the shims do not. Afterwards nothing below us
// runs, except a process that the kernel holds.
void LocalWorkers::give_up() {
  for (auto& [rank, worker] : workers_) worker.kill();
  const Deadline deadline = Deadline::in(std::chrono::milliseconds(200));
  for (auto& [rank, worker] : workers_) {
    while (::waitpid(worker.shim(), nullptr, WNOHANG) == 0 && !deadline.passed()) ::usleep(1000);
  }
  kill_descendants(Deadline::in(std::chrono::milliseconds(100)), not_ours_);
}

rlimit raise_open_files() {
  rlimit before = {};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit raised = before;
  raised.rlim_cur = raised.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return before;
}

}  // namespace paceline::launch
