#include "paceline/core/base/processors.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <fstream>
#include <map>

#include "paceline/core/base/control_groups.h"

namespace paceline {
namespace {

constexpr std::size_t kBits = 64;

std::string first_word(const std::filesystem::path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

std::string machine() {
  for (const auto* file : {"/proc/sys/kernel/random/boot_id", "/etc/machine-id"}) {
    if (std::string id = first_word(file); !id.empty()) return id;
  }
  return host_name();
}

ProcessorSet affinity() {
  static_assert(sizeof(cpu_set_t) % sizeof(std::uint64_t) == 0);
  ProcessorSet set{std::vector<std::uint64_t>(ProcessorSet::kMostWords)};
  auto* const mask = reinterpret_cast<cpu_set_t*>(set.words.data());
  if (::sched_getaffinity(0, set.words.size() * sizeof(std::uint64_t), mask) == 0) {
    while (set.words.back() == 0) set.words.pop_back();
    return set;
  }
  ProcessorSet all;
  for (int i = 0; i < std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))); ++i)
    all.insert(i);
  return all;
}

// Reads one group's files: processor time over clock time. "max" and -1 mean no quota.
double processors_of(const ControlGroup& group) {
  double quota = 0, period = 0;
  if (group.is_unified) {
    std::ifstream(group.folder / "cpu.max") >> quota >> period;
  } else {
    std::ifstream(group.folder / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group.folder / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

std::uint64_t number_of(const std::filesystem::path& folder) {
  struct stat status = {};
  ::stat(folder.c_str(), &status);
  return status.st_ino;
}

bool share(const Processors& one, const Processors& other) {
  if (one.machine != other.machine) return false;
  const bool same_quota = one.quota.group != 0 && one.quota.group == other.quota.group;
  return same_quota || one.allowed.meets(other.allowed);
}

double processors_shared_by(std::span<const Processors> ranks, const std::vector<int>& pool) {
  struct Group {
    ProcessorSet allowed;
    double quota = 0;
  };
  ProcessorSet all;
  std::map<std::uint64_t, Group> groups;
  for (const int rank : pool) {
    const Processors& own = ranks[static_cast<std::size_t>(rank)];
    all.insert(own.allowed);
    groups[own.quota.group].allowed.insert(own.allowed);
    groups[own.quota.group].quota = own.quota.processors;
  }
  double quotas = 0;
  for (const auto& [number, group] : groups)
    quotas += std::min<double>(group.quota, group.allowed.count());
  return std::min<double>(quotas, all.count());
}

}  // namespace

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name = {};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

void ProcessorSet::insert(int processor) {
  const auto i = static_cast<std::size_t>(processor);
  words.resize(std::max(words.size(), i / kBits + 1));
  words[i / kBits] |= std::uint64_t{1} << i % kBits;
}

void ProcessorSet::insert(const ProcessorSet& others) {
  words.resize(std::max(words.size(), others.words.size()));
  for (std::size_t i = 0; i < others.words.size(); ++i) words[i] |= others.words[i];
}

int ProcessorSet::count() const {
  int count = 0;
  for (const std::uint64_t word : words) count += std::popcount(word);
  return count;
}

bool ProcessorSet::meets(const ProcessorSet& other) const {
  for (std::size_t i = 0; i < std::min(words.size(), other.words.size()); ++i) {
    if ((words[i] & other.words[i]) != 0) return true;
  }
  return false;
}

int Processors::count() const {
  return static_cast<int>(std::clamp<double>(quota.processors, 1, std::max(1, allowed.count())));
}

Processors own_processors() {
  return {machine(), affinity(), processor_quota()};
}

ProcessorQuota processor_quota(const std::filesystem::path& root) {
  ProcessorQuota least;
  for (const ControlGroup& group : control_groups("cpu", root)) {
    const double here = processors_of(group);
    if (here < least.processors) least = {here, number_of(group.folder)};
  }
  return least;
}

std::vector<ProcessorPool> pools_of(std::span<const Processors> ranks) {
  std::vector<ProcessorPool> pools;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    // All pools that the rank meets are joined into one, with the rank at the end.
    const auto meets = [&](const ProcessorPool& pool) {
      return std::ranges::any_of(pool.ranks, [&](int other) {
        return share(ranks[static_cast<std::size_t>(rank)], ranks[static_cast<std::size_t>(other)]);
      });
    };
    const auto met = std::ranges::stable_partition(pools, [&](const auto& p) { return !meets(p); });
    ProcessorPool joined;
    for (const ProcessorPool& pool : met)
      joined.ranks.insert(joined.ranks.end(), pool.ranks.begin(), pool.ranks.end());
    joined.ranks.push_back(rank);
    pools.erase(met.begin(), met.end());
    pools.push_back(std::move(joined));
  }
  for (ProcessorPool& pool : pools) {
    std::ranges::sort(pool.ranks);
    pool.processors = processors_shared_by(ranks, pool.ranks);
  }
  std::ranges::sort(pools, {}, [](const ProcessorPool& pool) { return pool.ranks.front(); });
  return pools;
}

}  // namespace paceline
