// The rule by which all ranks of a group take the same carrier for buffers on devices. It is a pure
// function of what each of them knows of all.
#pragma once

#include <cstdint>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/options.h"
#include "paceline/core/membership/environment/device_transport.h"

namespace paceline::collective {

enum class DeviceCarrier : std::uint8_t {
  direct,  // all_reduces where ranks reach each other's memory; else staged
  nccl,    // what NCCL has words for; else as the other two
  staged,
};

struct MemberDevice {
  bool is_on_device = true;  // its buffers
  membership::RankDevice device = {};
};

struct DeviceGroup {
  std::vector<MemberDevice> members;  // by rank
  bool shares_memory = false;         // all ranks do, on one host
  Determinism determinism = Determinism::reproducible;
  membership::DeviceTransport wanted = membership::DeviceTransport::automatic;

  // With the devices that ranks told when they joined, as if all buffers lay there.
  static DeviceGroup of(const Members& members, bool shares_memory, Determinism determinism,
                        membership::DeviceTransport wanted);
};

// The failure (misuse) tells which ranks cannot have what is wanted, and the remedy.
Result<DeviceCarrier> device_carrier(const DeviceGroup& group);

}  // namespace paceline::collective
