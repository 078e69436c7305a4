#include "paceline/core/observe/host_ranks.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <tuple>
#include <vector>

#include "paceline/core/base/number.h"

namespace paceline::observe {
namespace {

namespace fs = std::filesystem;

std::optional<int> number_of(const fs::path& path) {
  return number_in<int>(path.filename().native());
}

// Processes come and go, and those of other users cannot be read, so unreadable entries are
// skipped.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    found.push_back(at->path());
  return found;
}

struct Page {
  transport::RankStatus status;
  std::uint64_t memory;  // identifies the page, whichever process shows it
};

std::optional<Page> page_of(const fs::path& process) {
  const std::string wanted = fmt::format("/memfd:{} (deleted)", transport::StatusPage::kName);
  for (const fs::path& descriptor : entries(process / "fd")) {
    std::error_code error;
    if (fs::read_symlink(descriptor, error) != wanted || error) continue;
    struct stat about = {};
    const auto status = transport::read_status(descriptor.c_str());
    if (!status || ::stat(descriptor.c_str(), &about) != 0) return std::nullopt;
    return Page{*status, about.st_ino};
  }
  return std::nullopt;
}

struct Shown {
  HostRank rank;
  std::uint64_t memory = 0;  // identifies the page
  int parent = 0;            // process
};

// Reads fields 3 (state), 4 (parent), 14 and 15 (time) and 24 (pages) of /proc/<pid>/stat; the name
// in field 2 may contain anything up to its last ')'.
void read_usage(const fs::path& process, Shown& shown) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text, '\0');
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return;
  std::vector<std::string> fields;
  std::size_t begin = name_end + 2;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    fields.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  constexpr std::size_t kFirst = 3, kState = 3, kParent = 4, kUser = 14, kSystem = 15, kPages = 24;
  if (fields.size() <= kPages - kFirst) return;
  const auto value = [&](std::size_t field) {
    return std::strtoll(fields[field - kFirst].c_str(), nullptr, 10);
  };
  const std::string& state = fields[kState - kFirst];
  shown.rank.stopped = state == "T" || state == "t";
  shown.parent = static_cast<int>(value(kParent));
  shown.rank.cpu_seconds = static_cast<double>(value(kUser) + value(kSystem)) /
                           static_cast<double>(::sysconf(_SC_CLK_TCK));
  shown.rank.memory_bytes = value(kPages) * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

std::vector<HostRank> ranks_on_this_host(std::string_view job) {
  std::vector<Shown> all;
  for (const fs::path& process : entries("/proc")) {
    const auto pid = number_of(process);
    if (!pid) continue;
    const auto page = page_of(process);
    if (!page || (!job.empty() && job != page->status.job.data())) continue;
    all.push_back({.rank = {*pid, page->status}, .memory = page->memory});
    read_usage(process, all.back());
  }
  // A fork shows its parent's page. Process numbers wrap around, so their order does not tell which
  // one is the fork.
  const auto is_fork = [&all](const Shown& one) {
    return std::ranges::any_of(all, [&one](const Shown& other) {
      return other.memory == one.memory && other.rank.pid == one.parent;
    });
  };
  std::vector<HostRank> ranks;
  for (const Shown& one : all) {
    if (!is_fork(one)) ranks.push_back(one.rank);
  }
  std::ranges::sort(ranks, {}, [](const HostRank& r) {
    return std::tuple(std::string_view(r.status.job.data()), r.status.generation, r.status.server,
                      r.status.rank, r.pid);
  });
  return ranks;
}

}  // namespace paceline::observe
