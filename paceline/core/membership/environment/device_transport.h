// DeviceTransport: what carries collectives of buffers that lie in the memory of devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace paceline::membership {

enum class DeviceTransport : std::uint8_t {
  automatic,  // each group takes what its members can
  direct,     // ranks that reach each other's device memory read and write it
  nccl,       // NCCL, which wants a device for each rank and adds in its own order
  staged,     // through the memory of the host
};

// "auto", "direct", "nccl", "staged": as users write them.
std::string_view name_of(DeviceTransport transport);
std::optional<DeviceTransport> device_transport_of(std::string_view name);

}  // namespace paceline::membership
