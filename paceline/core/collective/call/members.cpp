#include "paceline/core/collective/call/members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace paceline::collective {

Members::Members(std::shared_ptr<membership::Generation> generation, std::vector<int> world_ranks)
    : generation_(std::move(generation)),
      world_ranks_(std::move(world_ranks)),
      members_(static_cast<std::size_t>(generation_->identity().size), -1),
      is_world_(world_ranks_ == all_of(*generation_)) {
  for (int member = 0; member < size(); ++member)
    members_[static_cast<std::size_t>(world_rank(member))] = member;
  rank_ = this->member(generation_->identity().rank);
  const topology::Topology there = topology();
  share_memory_ = there.within_a_host == topology::LinkClass::memory &&
                  there.hosts.size() < static_cast<std::size_t>(size());
  const auto take_turns = [](const ProcessorPool& pool) {
    return static_cast<double>(pool.ranks.size()) > 2 * pool.processors;
  };
  take_turns_ = std::ranges::any_of(there.pools, take_turns);
  for (const ProcessorPool& pool : there.pools)
    owners_ += std::min(pool.cores(), static_cast<int>(pool.ranks.size()));
  if (size() < kMany) owners_ = size();
}

std::vector<int> Members::all_of(const membership::Generation& generation) {
  std::vector<int> all(static_cast<std::size_t>(generation.identity().ranks()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Servers that come late are not in the table.
int Members::member(int world_rank) const {
  const auto place = static_cast<std::size_t>(world_rank);
  return place < members_.size() ? members_[place] : -1;
}

topology::Topology Members::topology() const {
  const membership::Hosts& hosts = generation_->hosts();
  topology::Topology world{.pools = hosts.pools,
                           .within_a_host = hosts.share_memory ? topology::LinkClass::memory
                                                               : topology::LinkClass::loopback};
  for (std::size_t rank = 0; rank < hosts.of_ranks.size(); ++rank) {
    const auto host = static_cast<std::size_t>(hosts.of_ranks[rank]);
    world.hosts.resize(std::max(world.hosts.size(), host + 1));
    world.hosts[host].push_back(static_cast<int>(rank));
  }
  return topology_of(world, world_ranks_);
}

Shape Members::shape() const {
  Shape shape{.ranks = size(), .rank = rank_};
  topology::Topology hosts = topology();
  const bool two_levels =
      hosts.hosts.size() > 1 && hosts.hosts.size() < static_cast<std::size_t>(size());
  if (two_levels) shape.groups = std::move(hosts.hosts);
  return shape;
}

std::string Members::name(int member) const {
  return is_world_ ? fmt::format("rank {}", member)
                   : fmt::format("rank {} (rank {} of the world)", member, world_rank(member));
}

std::string Members::names(const std::vector<int>& members) const {
  if (members.size() == 1) return name(members[0]);
  if (is_world_) return fmt::format("ranks {}", fmt::join(members, ", "));
  std::vector<int> in_world;
  for (const int member : members) in_world.push_back(world_rank(member));
  return fmt::format("ranks {} (ranks {} of the world)", fmt::join(members, ", "),
                     fmt::join(in_world, ", "));
}

std::string Members::names_and_device(const std::vector<int>& members) const {
  return names(members) +
         (members.size() == 1 ? generation_->device_of(world_rank(members[0])) : "");
}

Failure Members::failure(Fault fault, std::string what, const std::vector<int>& members) const {
  Failure failure{fault, std::move(what), {}};
  for (const int member : members) failure.ranks.push_back(world_rank(member));
  return failure;
}

}  // namespace paceline::collective
