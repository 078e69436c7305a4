#include "paceline/core/job/use_devices.h"

#include "paceline/core/job/job_impl.h"
#include "paceline/core/membership/generation/named_device.h"

namespace paceline::job {

void use_devices(Job& job, device::Devices& devices, bool all_buffers,
                 membership::DeviceTransport transport, std::size_t staged_piece) {
  Job::Impl& impl = job.impl();
  const std::lock_guard lock(impl.devices_mutex);
  impl.known_devices = &devices;
  impl.all_on_device = all_buffers;
  impl.environment.device_transport = transport;
  if (staged_piece > 0) impl.staged_piece = staged_piece;
}

void tell_devices(Job& job, std::vector<membership::RankDevice> devices,
                  collective::EngineLibrary* library) {
  Job::Impl& impl = job.impl();
  membership::Hosts hosts = impl.generation->hosts();
  hosts.devices = std::move(devices);
  impl.generation->set_hosts(std::move(hosts));
  impl.known_device_engine = library;
}

void name_device(Job& job, const std::string& device) {
  membership::name_device(*job.impl().reactor, job.impl().generation, device);
}

int count_devices(Job& job) {
  return job.impl().devices().count();
}

bool sees_device(Job& job, int device) {
  try {
    return device < count_devices(job);
  } catch (const Error&) {  // there are none
    return false;
  }
}

}  // namespace paceline::job
