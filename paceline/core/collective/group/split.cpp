// Makes a group out of another: all ranks of the parent agree on its members and its number.
#include <algorithm>
#include <map>

#include "paceline/core/base/check.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/collective/group/communicator_impl.h"
#include "paceline/core/collective/group/group_number.h"

namespace paceline {
namespace {

// The message of each rank of the parent.
struct Wish {
  std::int64_t color = -1;
  std::int64_t key = 0;
  std::int64_t agreed = 0;  // must be the same on all ranks
};

}  // namespace

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  return group_of("split", color, key, 0);
}

std::unique_ptr<Communicator> Communicator::subgroup(std::span<const int> ranks) {
  std::uint64_t list = ranks.size();
  std::vector<bool> is_member(static_cast<std::size_t>(size()));
  int color = -1, key = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    PACELINE_CHECK(ranks[i] >= 0 && ranks[i] < size(), "subgroup: rank {} is not in 0..{}",
                   ranks[i], size() - 1);
    PACELINE_CHECK(!is_member[static_cast<std::size_t>(ranks[i])],
                   "subgroup: rank {} is named twice", ranks[i]);
    is_member[static_cast<std::size_t>(ranks[i])] = true;
    list = mix(list, static_cast<std::uint64_t>(ranks[i]));
    if (ranks[i] != rank()) continue;
    color = 0;
    key = static_cast<int>(i);
  }
  return group_of("subgroup", color, key, list);
}

std::unique_ptr<Communicator> Communicator::group_of(const std::string& what, int color, int key,
                                                     std::uint64_t agreed) {
  check_may_wait(what);
  const std::uint64_t split = ++impl_->splits;
  const Wish own{std::max(color, -1), key, static_cast<std::int64_t>(agreed)};
  std::vector<Wish> wishes(static_cast<std::size_t>(size()));
  constexpr std::size_t kFields = sizeof(Wish) / sizeof(std::int64_t);
  all_gather(const_buffer_of(std::span(&own.color, kFields)),
             buffer_of(std::span(&wishes[0].color, wishes.size() * kFields)))
      .wait();

  std::multimap<std::int64_t, int> members;  // by key, then by rank
  for (int rank = 0; rank < size(); ++rank) {
    const Wish& wish = wishes[static_cast<std::size_t>(rank)];
    if (wish.agreed != wishes[0].agreed) {
      const collective::Members& parent = impl_->group->members();
      throw Error(parent.failure(
          Fault::mismatch,
          fmt::format(
              "{} number {} of group '{}': {} and {} name other ranks; all must give the same list",
              what, split, name(), parent.name(0), parent.name(rank)),
          {0, rank}));
    }
    if (wish.color == own.color) members.emplace(wish.key, rank);
  }
  const std::uint32_t number = collective::agree_on_number(
      *this, impl_->group->generation(), impl_->group->id(), {.count = split, .color = own.color});
  if (own.color < 0) return nullptr;
  std::vector<int> world_ranks;
  for (const auto& [by_key, rank] : members) world_ranks.push_back(world_rank(rank));
  auto made =
      collective::open_communicator({.number = number,
                                     .name = fmt::format("{}.{}.{}", name(), split, own.color),
                                     .reactor = impl_->group->reactor(),
                                     .generation = impl_->group->members().shared_generation(),
                                     .world_ranks = std::move(world_ranks),
                                     .determinism = impl_->determinism,
                                     .timeout = impl_->timeout,
                                     .stall_time = impl_->group->stall_time(),
                                     .profile = impl_->profile,
                                     .engines = impl_->engines,
                                     .devices = impl_->devices,
                                     .device_engine = impl_->device_engine,
                                     .device_transport = impl_->device_transport,
                                     .staged_piece = impl_->staged_piece,
                                     .all_on_device = impl_->all_on_device});
  made->impl_->join(impl_->family);
  return made;
}

}  // namespace paceline
