// The processors that a process may use: which ones, and how much of their time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace paceline {

// Some processors of a machine, by the numbers that its kernel gives them.
struct ProcessorSet {
  static constexpr std::size_t kMostWords = 128;  // Linux has no more than 8192 processors
  std::vector<std::uint64_t> words;               // processor i: bit i % 64 of word i / 64

  void insert(int processor);
  void insert(const ProcessorSet& others);
  int count() const;
  bool meets(const ProcessorSet& other) const;  // some processor is in both
};

// What a control group allows, in processors: 1.5 is three half ones.
struct ProcessorQuota {
  double processors = std::numeric_limits<double>::infinity();
  std::uint64_t group = 0;  // a number that no other group of the machine has; 0: no quota
};

struct Processors {
  // The same for all processes of one kernel, whatever network namespaces or containers they are
  // in.
  std::string machine;
  ProcessorSet allowed;  // by affinity
  ProcessorQuota quota;  // the least of its control group and of all above it

  // How many of its threads can run all the time: whole ones, and one at least.
  int count() const;
};

// The calling thread's. COST: some files of /proc and /sys.
Processors own_processors();

// Of a tree of files as Linux has it below `root`, so that tests can make one.
ProcessorQuota processor_quota(const std::filesystem::path& root = "/");

}  // namespace paceline
