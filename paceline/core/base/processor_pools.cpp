#include "paceline/core/base/processor_pools.h"

#include <algorithm>
#include <map>

namespace paceline {
namespace {

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
