#include "paceline/app/launch/process/catching.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "paceline/core/base/number.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::launch {
namespace {

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

void signal_processes_with_handler(int signal) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const auto pid = number_in<int>(entry.path().filename().string());
    if (pid && *pid != ::getpid()) signal_if_it_catches(*pid, signal);
  }
}

}  // namespace paceline::launch
