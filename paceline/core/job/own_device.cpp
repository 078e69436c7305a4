#include "paceline/core/job/own_device.h"

#include <fmt/format.h>

#include <span>

#include "paceline/core/collective/engine/engine_plugin.h"
#include "paceline/core/device/device_plugin.h"
#include "paceline/core/membership/environment/device_choices.h"

namespace paceline::job {

using membership::DeviceTransport;
using membership::RankDevice;

bool tells_device(const membership::Environment& e) {
  const bool may_be_ncclds = e.device_transport == DeviceTransport::automatic && e.engine.empty();
  return !e.reproducible && (may_be_ncclds || e.device_transport == DeviceTransport::nccl);
}

RankDevice device_of_rank(device::Devices& devices, int local_rank, int sharing) {
  const int number = sharing > 0 ? local_rank / sharing : local_rank % devices.count();
  if (number >= devices.count()) return {};
  RankDevice device;
  for (const std::byte byte : devices.device(number).identity())
    device.identity += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return device;
}

RankDevice own_device(const membership::Environment& environment) {
  if (environment.is_server() || !tells_device(environment)) return {};
  const auto devices = device::load_devices("cuda");
  const auto sharing = membership::ranks_per_device();
  if (!devices || !sharing) return {};
  // Some launchers do not tell which of a host's ranks this is: then its device is not known.
  const bool may_have_neighbours = environment.local_world_size < environment.world_size;
  if (environment.local_world_size == 1 && may_have_neighbours && devices.value()->count() > 1)
    return {};
  RankDevice device = device_of_rank(*devices.value(), environment.local_rank, sharing.value());
  if (device.identity.empty()) return {};
  const auto nccl = collective::load_engine("nccl");
  device.has_nccl = nccl && nccl.value()->obstacle().empty();
  return device;
}

}  // namespace paceline::job
