#include "paceline/core/collective/group/device_carrier.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

namespace paceline::collective {
namespace {

using membership::DeviceTransport;

constexpr std::string_view kNcclRemedy =
    "; NCCL wants a device of its own for each rank: start as many ranks as devices (paceline run "
    "--devices 0,1), or take --device-transport auto";

bool is_there(const MemberDevice& member) {
  return member.is_on_device && !member.device.identity.empty();
}

Failure refused(const std::string& why, std::vector<int> ranks) {
  return {Fault::misuse, why + std::string(kNcclRemedy), std::move(ranks)};
}

// Two ranks with one device, or a rank without one beside ranks that have some; nothing: neither.
// Where no rank has told of any, the library finds out.
std::optional<Failure> obstacle_to_nccl(const std::vector<MemberDevice>& members) {
  if (std::ranges::none_of(members, is_there)) return std::nullopt;
  std::map<std::string, int> owners;
  for (int rank = 0; rank < static_cast<int>(members.size()); ++rank) {
    const MemberDevice& member = members[static_cast<std::size_t>(rank)];
    if (!is_there(member))
      return refused(fmt::format("rank {} has no CUDA device, and others have", rank), {rank});
    const auto [owner, is_first] = owners.emplace(member.device.identity, rank);
    if (!is_first) {
      return refused(fmt::format("ranks {} and {} have the same CUDA device, {}", owner->second,
                                 rank, member.device.identity),
                     {owner->second, rank});
    }
  }
  return std::nullopt;
}

bool is_ncclds(const DeviceGroup& group) {
  return group.determinism == Determinism::fast && group.members.size() > 1 &&
         std::ranges::all_of(
             group.members, [](const auto& one) { return is_there(one) && one.device.has_nccl; }) &&
         !obstacle_to_nccl(group.members);
}

}  // namespace

DeviceGroup DeviceGroup::of(const Members& members, bool shares_memory, Determinism determinism,
                            DeviceTransport wanted) {
  DeviceGroup group{.members = std::vector<MemberDevice>(static_cast<std::size_t>(members.size())),
                    .shares_memory = shares_memory,
                    .determinism = determinism,
                    .wanted = wanted};
  const auto& told = members.generation().hosts().devices;
  if (told.empty()) return group;
  for (int rank = 0; rank < members.size(); ++rank)
    group.members[static_cast<std::size_t>(rank)].device =
        told[static_cast<std::size_t>(members.world_rank(rank))];
  return group;
}

Result<DeviceCarrier> device_carrier(const DeviceGroup& group) {
  const bool reaches = group.shares_memory && std::ranges::all_of(group.members, [](const auto& m) {
                         return m.is_on_device;
                       });
  switch (group.wanted) {
    case DeviceTransport::staged: return DeviceCarrier::staged;
    case DeviceTransport::nccl:
      if (auto obstacle = obstacle_to_nccl(group.members)) return *std::move(obstacle);
      return DeviceCarrier::nccl;
    case DeviceTransport::direct:
      if (group.shares_memory) break;
      return Failure{Fault::misuse,
                     "the job was started with --device-transport direct, and its ranks do not "
                     "share memory on one host; start it with auto",
                     {}};
    case DeviceTransport::automatic:
      if (is_ncclds(group)) return DeviceCarrier::nccl;
  }
  return reaches ? DeviceCarrier::direct : DeviceCarrier::staged;
}

}  // namespace paceline::collective
