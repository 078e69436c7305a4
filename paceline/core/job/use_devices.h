// Buffers of a job in the memory of devices that no plugin knows.
#pragma once

#include "paceline/core/collective/call/device_transport.h"
#include "paceline/core/device/device.h"
#include "paceline/core/job/job.h"

namespace paceline::job {

// Called before the job's first communicator is used, in place of the devices that the plugin
// "cuda" finds. `devices` outlive the job. `all_buffers`: for tests, whose buffers count as memory
// of device 0 whatever they say.
void use_devices(Job& job, device::Devices& devices, bool all_buffers = false,
                 DeviceTransport transport = DeviceTransport::automatic);

}  // namespace paceline::job
