#include "paceline/core/job/use_devices.h"

#include "paceline/core/job/job_impl.h"

namespace paceline::job {

void use_devices(Job& job, device::Devices& devices, bool all_buffers,
                 membership::DeviceTransport transport) {
  Job::Impl& impl = job.impl();
  const std::lock_guard lock(impl.devices_mutex);
  impl.known_devices = &devices;
  impl.all_on_device = all_buffers;
  impl.environment.device_transport = transport;
}

}  // namespace paceline::job
