// Finds the processors that a process may use, how much of their time, and the host they are in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
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

}  // namespace paceline
