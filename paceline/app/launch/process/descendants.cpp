#include "paceline/app/launch/process/descendants.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::launch {
namespace {

std::string read_all(const std::string& path) {
  const transport::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char piece[4096];
  while (file.is_open()) {
    const auto got = ::read(file.get(), piece, sizeof piece);
    if (got <= 0) break;
    text.append(piece, static_cast<std::size_t>(got));
  }
  return text;
}

// A killed process needs a moment to end and to hand its children to us.
void wait_a_moment() {
  const timespec moment{.tv_sec = 0, .tv_nsec = 2'000'000};
  ::nanosleep(&moment, nullptr);
}

}  // namespace

void become_subreaper() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

std::vector<pid_t> children() {
  const std::string text = read_all(fmt::format("/proc/self/task/{}/children", ::getpid()));
  std::vector<pid_t> result;
  const char* at = text.c_str();
  while (true) {
    char* end = nullptr;
    const long pid = std::strtol(at, &end, 10);
    if (end == at) return result;
    result.push_back(static_cast<pid_t>(pid));
    at = end;
  }
}

bool kill_descendants(Deadline deadline, const std::vector<pid_t>& spared,
                      const std::function<void(pid_t, int)>& on_reaped) {
  while (true) {
    auto below = children();
    std::erase_if(below, [&](pid_t pid) {
      return std::find(spared.begin(), spared.end(), pid) != spared.end();
    });
    if (below.empty()) return true;
    for (const pid_t pid : below) ::kill(pid, SIGKILL);
    bool reaped = false;
    for (const pid_t pid : below) {
      int status = 0;
      if (::waitpid(pid, &status, WNOHANG) != pid) continue;
      reaped = true;
      if (on_reaped) on_reaped(pid, status);
    }
    if (deadline.passed()) return false;
    if (!reaped) wait_a_moment();
  }
}

}  // namespace paceline::launch
