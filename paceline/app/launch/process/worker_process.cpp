#include "paceline/app/launch/process/worker_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "paceline/app/launch/process/pipe.h"

namespace paceline::launch {
namespace {

void set_non_blocking(int fd) {
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
}

}  // namespace

Result<WorkerProcess> WorkerProcess::start(ShimOrders orders) {
  auto lifeline = make_pipe("a worker"), status = make_pipe("a worker"),
       output = make_pipe("a worker"), error = make_pipe("a worker");
  for (const auto* made : {&lifeline, &status, &output, &error}) {
    if (!*made) return made->error();
  }
  orders.launcher = ::getpid();
  orders.lifeline = lifeline->read.get();
  orders.status = status->write.get();
  orders.output = output->write.get();
  orders.error = error->write.get();

  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t shim = ::fork();
  if (shim == 0) run_shim(orders);
  const int fork_error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (shim < 0) return io_failure("cannot start a process (raise `ulimit -u`)", fork_error);

  WorkerProcess result;
  result.shim_ = shim;
  result.lifeline_ = std::move(lifeline->write);
  result.status_ = std::move(status->read);
  result.output_ = std::move(output->read);
  result.error_ = std::move(error->read);
  for (const auto* fd : {&result.lifeline_, &result.output_, &result.error_})
    set_non_blocking(fd->get());
  return result;
}

void WorkerProcess::forward(int signal) {
  const auto number = static_cast<unsigned char>(signal);
  // The shim may have ended.
  [[maybe_unused]] const auto written = ::write(lifeline_.get(), &number, 1);
}

void WorkerProcess::kill() {
  lifeline_.reset();
}

std::optional<ShimMessage> WorkerProcess::read() {
  // It is written in one go and far smaller than PIPE_BUF, so it arrives whole.
  ShimMessage message;
  if (::read(status_.get(), &message, sizeof message) != sizeof message) return std::nullopt;
  return message;
}

}  // namespace paceline::launch
