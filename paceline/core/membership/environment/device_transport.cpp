#include "paceline/core/membership/environment/device_transport.h"

#include <array>

namespace paceline::membership {
namespace {

constexpr std::array kDeviceTransports = {DeviceTransport::automatic, DeviceTransport::direct,
                                          DeviceTransport::nccl, DeviceTransport::staged};

}  // namespace

std::string_view name_of(DeviceTransport transport) {
  switch (transport) {
    case DeviceTransport::automatic: return "auto";
    case DeviceTransport::direct: return "direct";
    case DeviceTransport::nccl: return "nccl";
    case DeviceTransport::staged: return "staged";
  }
  return "?";
}

std::optional<DeviceTransport> device_transport_of(std::string_view name) {
  for (const DeviceTransport one : kDeviceTransports)
    if (name_of(one) == name) return one;
  return std::nullopt;
}

}  // namespace paceline::membership
