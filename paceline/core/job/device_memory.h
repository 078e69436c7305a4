// DeviceMemory: memory of a device, for programs that have no other library to allocate it, such as
// `paceline bench`.
#pragma once

#include <cstddef>
#include <memory>

#include "paceline/core/base/bytes.h"
#include "paceline/core/device/device.h"
#include "paceline/core/job/job.h"

namespace paceline::job {

// THREAD: one. It and the job live until no call uses it.
class DeviceMemory {
 public:
  // THROWS Error: misuse, there is no such device; io, it has not enough memory.
  DeviceMemory(Job& job, int device, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Elements that begin `offset` bytes from its begin, for calls of the job's communicators.
  Buffer buffer(std::size_t offset, std::size_t count, Dtype dtype) const;
  // Copies, and waits until the device has. THROWS Error (io): the device fails.
  void write(Bytes from);
  void read(MutableBytes into) const;

 private:
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const;

  device::Device& device_;
  const int number_;
  const device::Stream stream_;
  const std::unique_ptr<device::Event> copied_;
  std::byte* const memory_;
};

}  // namespace paceline::job
