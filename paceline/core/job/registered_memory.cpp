#include "paceline/core/job/registered_memory.h"

#include <fmt/format.h>

#include <mutex>
#include <string>

#include "paceline/core/base/check.h"
#include "paceline/core/base/log.h"
#include "paceline/core/job/job_impl.h"

namespace paceline::job {
namespace {

void tell_of_detour(const std::string& why) {
  static std::once_flag told;
  std::call_once(told, [&] {
    warn(
        fmt::format("copies between a device and the host take a detour, so that training is "
                    "slower: {}",
                    why));
  });
}

}  // namespace

RegisteredMemory::RegisteredMemory(Job& job, int device, MutableBytes memory) : memory_(memory) {
  try {
    device::Devices& devices = job.impl().devices();
    PACELINE_CHECK(device < devices.count(),
                   "there is no device {} among the {} that Paceline sees", device,
                   devices.count());
    device::Device& one = devices.device(device);
    if (auto registered = one.register_host(memory_); !registered) throw Error(registered.error());
    device_ = &one;
  } catch (const Error& error) {
    tell_of_detour(error.what());
  }
}

RegisteredMemory::~RegisteredMemory() {
  if (device_ != nullptr) device_->unregister_host(memory_);
}

}  // namespace paceline::job
