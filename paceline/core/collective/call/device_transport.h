// How buffers on devices go to other ranks (`--device-transport`).
#pragma once

#include <cstdint>

namespace paceline {

enum class DeviceTransport : std::uint8_t {
  automatic,  // direct where ranks reach each other's device memory, else staged
  direct,     // the same; where they do not reach it, a call fails and tells why
  nccl,       // NCCL, which needs a device for each rank
  staged,     // through the host
};

}  // namespace paceline
