#include "paceline/core/collective/price/board_cost.h"

#include <algorithm>

#include "paceline/core/collective/agreement/fingerprint_barrier.h"
#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/carrier/board.h"

namespace paceline::collective {
namespace {

constexpr double kPostLine = 64;  // bytes: what a look at a post fetches at least

// The most ranks that one processor carries, which take turns there.
double ranks_of_a_core(const topology::Topology& topology) {
  double most = 1;
  for (const ProcessorPool& pool : topology.pools) {
    const double each = static_cast<double>(pool.ranks.size()) / pool.cores();
    most = std::max(most, each);
  }
  return most;
}

// A rank that waits is let run so long after it may go on.
double wake_of(const topology::Topology& topology, const topology::Profile& profile) {
  const bool is_crowded =
      std::ranges::any_of(topology.pools, [](const auto& pool) { return pool.is_crowded(); });
  return is_crowded ? profile.crowded : 0;
}

double alpha_of(const topology::Topology& topology, const topology::Profile& profile) {
  return profile.link(topology.within_a_host).lines[0].alpha;
}

}  // namespace

double board_cost(std::size_t bytes, int owners, const topology::Topology& topology,
                  const topology::Profile& profile) {
  const double ranks = topology.ranks(), turns = ranks_of_a_core(topology);
  const double alpha = alpha_of(topology, profile), wake = wake_of(topology, profile);
  const double length = static_cast<double>(bytes);
  const double comings = 2 * (turns * alpha / 2 + wake);
  if (Board::each_sums_up(bytes, topology.ranks()))
    return comings + turns * ranks * std::max(length, kPostLine) * profile.gamma;
  const double chunk = std::max(length / owners, kPostLine);
  const double owned = std::max(1.0, turns * owners / ranks);  // chunks that one core sums up
  if (Board::holds(bytes))
    return comings + alpha + wake + (owned * ranks * chunk + turns * length) * profile.gamma;
  return comings + alpha + wake + owned * ranks * chunk * (profile.gamma + profile.store);
}

double agreement_cost(const topology::Topology& topology, const topology::Profile& profile) {
  const double ranks = topology.ranks(), turns = ranks_of_a_core(topology);
  const double alpha = alpha_of(topology, profile), wake = wake_of(topology, profile);
  if (topology.ranks() < FingerprintBarrier::kFewestRanks)
    return turns * (ranks - 1) * alpha + wake;
  return 2 * (turns * alpha + tree_levels(topology.ranks()) * wake);
}

}  // namespace paceline::collective
