// RegisteredMemory: memory of the host that a device copies to and from without a detour.
#pragma once

#include "paceline/core/base/bytes.h"
#include "paceline/core/device/device.h"
#include "paceline/core/job/job.h"

namespace paceline::job {

// Registered while it lives. It is slow to make: 3.6 ms for 64 MiB on an H200. THREAD: one.
class RegisteredMemory {
 public:
  // `memory` and the job outlive this. Where Paceline has no such device, or it refuses, copies take
  // a detour, which is told once for a process.
  RegisteredMemory(Job& job, int device, MutableBytes memory);
  ~RegisteredMemory();
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

 private:
  const MutableBytes memory_;
  device::Device* device_ = nullptr;  // null: it is not registered
};

}  // namespace paceline::job
