// The rooms above make a Communicator of ranks of one generation in this way.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/engine/late_engine.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/collective/group/group.h"
#include "paceline/core/device/device.h"
#include "paceline/core/membership/environment/device_transport.h"
#include "paceline/core/topology/profile.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::collective {

struct Opening {
  // The same on all members, and of no other group that any of them is in. 0: the world.
  std::uint32_t number = 0;
  std::string name;
  std::shared_ptr<transport::Reactor> reactor;
  std::shared_ptr<membership::Generation> generation;
  std::vector<int> world_ranks;  // by rank in the group
  Determinism determinism = Determinism::reproducible;
  std::chrono::milliseconds timeout = {};                         // of an operation
  std::chrono::milliseconds stall_time = Group::kUsualStallTime;  // a wait of this length is told
  topology::Profile profile = {};                                 // the same on all members
  EngineLibrary* engines = nullptr;  // whose engine carries the collectives; nullptr: programs do
  // The devices in whose memory buffers may lie, which outlive the group: asked for when one does.
  // It THROWS Error (misuse) that tells why there are none. Empty: there are none.
  std::function<device::Devices&()> devices = {};
  // Finds the library for such buffers where each rank has a device of its own; nullptr: there is
  // none. It is asked for when a buffer lies on one. REQUIRES: it takes calls in their memory.
  LateEngine::Find device_engine = {};
  // This is to carry buffers in the memory of devices.
  membership::DeviceTransport device_transport = membership::DeviceTransport::automatic;
  std::size_t staged_piece = std::size_t{1} << 20;  // bytes: longer calls are staged in pieces
  // For tests: all buffers count as memory of device 0, whatever their callers say.
  bool all_on_device = false;
};

// With an engine it blocks until all members are here. THROWS Error: what enlist (enlist.h) throws.
std::unique_ptr<Communicator> open_communicator(Opening opening);

}  // namespace paceline::collective
