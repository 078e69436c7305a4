#include "paceline/app/launch/process/signals.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "paceline/core/base/result.h"

namespace paceline::launch {
namespace {

bool is_ignored(int number) {
  struct sigaction action;
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

SignalWatch::SignalWatch(transport::Poller& poller, std::function<void(int)> on_signal)
    : poller_(poller), on_signal_(std::move(on_signal)) {
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGUSR1, SIGUSR2}) {
    if (!is_ignored(number)) ::sigaddset(&watched, number);
  }
  sigset_t blocked = watched;
  ::sigaddset(&blocked, SIGTTIN);
  ::sigaddset(&blocked, SIGTTOU);
  ::sigprocmask(SIG_BLOCK, &blocked, &mask_);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &pipe_action_);
  descriptor_ = transport::FileDescriptor(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_.is_open()) throw Error(io_failure("cannot watch signals", errno));
  poller_.watch(descriptor_.get(), EPOLLIN, [this](std::uint32_t) { read(); });
}

SignalWatch::~SignalWatch() {
  poller_.forget(descriptor_.get());
  ::sigaction(SIGPIPE, &pipe_action_, nullptr);
  ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
}

void SignalWatch::read() {
  signalfd_siginfo info;
  while (::read(descriptor_.get(), &info, sizeof info) == sizeof info)
    on_signal_(static_cast<int>(info.ssi_signo));
}

}  // namespace paceline::launch
