#include "paceline/app/launch/process/signals.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <utility>

#include "paceline/core/base/number.h"
#include "paceline/core/base/result.h"

namespace paceline::launch {
namespace {

bool is_ignored(int number) {
  struct sigaction action;
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// The value of a line such as "SigCgt:\t0000000000004002" in /proc/<pid>/status.
std::string status_line(pid_t pid, const std::string& key) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":\t")) return line.substr(key.size() + 2);
  return {};
}

bool is_in_mask(pid_t pid, const std::string& key, int signal) {
  const std::string mask = status_line(pid, key);
  std::uint64_t signals = 0;
  std::from_chars(mask.data(), mask.data() + mask.size(), signals, 16);
  return (signals >> (signal - 1) & 1) != 0;
}

// Within sigwait() the kernel shows awaited signals as not blocked.
bool is_in_sigwait(pid_t pid) {
  std::error_code ignored;
  for (const auto& thread :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), ignored)) {
    std::ifstream call(thread.path() / "syscall");
    int number = -1;
    if (call >> number && number == SYS_rt_sigtimedwait) return true;
  }
  return false;
}

// A process catches a signal by a handler, or by waiting for it (sigwait, signalfd), for which it
// must be blocked.
bool catches(pid_t pid, int signal) {
  return is_in_mask(pid, "SigCgt", signal) || is_in_mask(pid, "SigBlk", signal) ||
         is_in_sigwait(pid);
}

// A pidfd stays that of one process, also when its number is given to another one.
void signal_if_it_catches(pid_t pid, int signal) {
  const transport::FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.is_open() || ::getpgid(pid) != ::getpgrp() || !catches(pid, signal)) return;
  ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0);
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

void signal_processes_with_handler(int signal) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const auto pid = number_in<int>(entry.path().filename().string());
    if (pid && *pid != ::getpid()) signal_if_it_catches(*pid, signal);
  }
}

}  // namespace paceline::launch
