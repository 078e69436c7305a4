// Finds the processors that a process may use, how much of their time, and the host they are in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace paceline {

// A set of processors of a machine, by the kernel's numbers.
struct ProcessorSet {
  static constexpr std::size_t kMostWords = 128;  // Linux has no more than 8192 processors
  std::vector<std::uint64_t> words;               // processor i: bit i % 64 of word i / 64

  void insert(int processor);
  void insert(const ProcessorSet& others);
  int count() const;
  bool meets(const ProcessorSet& other) const;  // some processor is in both
};

// The limit of a control group, in processors: 1.5 may be three half ones.
struct ProcessorQuota {
  double processors = std::numeric_limits<double>::infinity();
  std::uint64_t group = 0;  // unique to the group on this machine; 0: no quota
};

struct Processors {
  // Identifies the kernel: equal for all its processes, in any network namespace or container.
  std::string machine;
  ProcessorSet allowed;  // by CPU affinity
  ProcessorQuota quota;  // the least of its control group and of all above it

  // The number of its threads that can run all the time: whole, and at least one.
  int count() const;
};

// The name of this host, as gethostname(2) tells it. Containers of one machine have names of their
// own.
std::string host_name();

// Those of the calling thread. COST: reads some files of /proc and /sys.
Processors own_processors();

// The quota read from a tree of files as Linux has it below `root`; tests make their own tree.
ProcessorQuota processor_quota(const std::filesystem::path& root = "/");

// Groups ranks that share processors. Containers and network namespaces look like hosts but may
// share processors, and ranks of one host may have separate ones.
struct ProcessorPool {
  std::vector<int> ranks;  // ascending
  double processors = 1;   // what they have together

  bool is_crowded() const { return static_cast<double>(ranks.size()) > processors; }
  // The number of ranks that can run at a time.
  int cores() const { return processors < 2 ? 1 : static_cast<int>(processors); }
  bool operator==(const ProcessorPool&) const = default;
};

// Forms the pools from the processors that each rank may use. Each rank is in one pool, and pools
// are in the order of their first ranks. Two ranks share a pool if they are on one machine and may
// run on the same processor or have the quota of the same control group, directly or through other
// ranks. A pool has all processors that one of its ranks may run on, but no more than the sum of
// their quotas.
std::vector<ProcessorPool> pools_of(std::span<const Processors> ranks);

}  // namespace paceline
