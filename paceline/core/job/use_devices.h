// The devices in whose memory buffers of a job may lie.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "paceline/core/collective/engine/engine.h"
#include "paceline/core/device/device.h"
#include "paceline/core/job/job.h"
#include "paceline/core/membership/environment/device_transport.h"
#include "paceline/core/membership/store/rank_device.h"

namespace paceline::job {

// The devices that this process sees. THROWS Error (misuse): none, or the plugin is missing.
int count_devices(Job& job);

// Whether there is a device of this number, and the plugin "cuda" found it. Never THROWS.
bool sees_device(Job& job, int device);

// Tells `paceline top` and the other ranks that this one's buffers lie in the memory of `device`
// ("cuda:0"): verdicts name it. Communicators tell it themselves of the buffers that they take.
void name_device(Job& job, const std::string& device);

// Called before the job's first communicator is used, in place of the devices that the plugin
// "cuda" finds. `devices` outlive the job. `all_buffers`: for tests, whose buffers count as memory
// of device 0 whatever they say. `staged_piece`: for tests, the bytes of a piece of a staged call;
// 0: the usual ones.
void use_devices(Job& job, device::Devices& devices, bool all_buffers = false,
                 membership::DeviceTransport transport = membership::DeviceTransport::automatic,
                 std::size_t staged_piece = 0);

// For tests, as use_devices: what the ranks of the world, by rank, have told of their devices when
// they joined, and the library that stands in for NCCL's.
void tell_devices(Job& job, std::vector<membership::RankDevice> devices,
                  collective::EngineLibrary* library);

}  // namespace paceline::job
