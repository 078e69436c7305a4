#include "paceline/core/membership/environment/ancestry.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace paceline::membership {
namespace {

struct Stat {
  int parent = 0;
  std::string started;
};

// The 4th and the 22nd field of /proc/<pid>/stat; the 2nd may hold blanks, and ends with the last
// ')'.
Stat stat_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  Stat stat;
  std::string field;
  fields >> field >> stat.parent;
  for (int number = 5; number <= 22; ++number) fields >> stat.started;
  return stat;
}

bool has_variable(int pid, const std::string& name) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.starts_with(name + "=")) return true;
  }
  return false;
}

}  // namespace

std::string process_that_started(const std::string& variable) {
  int pid = ::getppid();
  while (pid > 1 && has_variable(pid, variable)) pid = stat_of(pid).parent;
  return pid > 0 ? fmt::format("{}/{}", pid, stat_of(pid).started) : std::string();
}

}  // namespace paceline::membership
