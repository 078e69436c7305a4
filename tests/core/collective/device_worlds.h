// Ranks of one process whose buffers lie on devices that work as late as they may.
#pragma once

#include <cstring>
#include <functional>
#include <vector>

#include "paceline/core/job/use_devices.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/late_device.h"

namespace paceline::collective::testing {

struct DeviceWorld {
  bool share_memory = true, reproducible = true;
  bool all_on_device = false;
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  DeviceTransport transport = DeviceTransport::automatic;
};

inline void run_on_devices(test::LateDevices& devices, int ranks, const DeviceWorld& world,
                           const std::function<void(Job&)>& body) {
  const LocalWorldOptions options{.share_memory = world.share_memory,
                                  .reproducible = world.reproducible,
                                  .operation_timeout = world.timeout};
  run_ranks(ranks, options, [&](Job& job) {
    job::use_devices(job, devices, world.all_on_device, world.transport);
    body(job);
  });
}

// A vector in a device's memory.
template <typename T>
struct VectorOnDevice {
  VectorOnDevice(test::LateDevices& devices, int number, std::size_t count, device::Stream stream)
      : memory(devices.device(number), count * sizeof(T)),
        device(number),
        count(count),
        stream(stream) {}
  Buffer buffer() const {
    return {memory.data(),
            count,
            dtype_of<T>(),
            {.kind = Memory::Kind::cuda, .device = device, .stream = stream}};
  }
  T* values() const { return reinterpret_cast<T*>(memory.on_host().data()); }
  void write(const std::vector<T>& from) const {
    std::memcpy(values(), from.data(), count * sizeof(T));
  }
  std::vector<T> read() const { return {values(), values() + count}; }

  test::DeviceMemory memory;
  int device;
  std::size_t count;
  device::Stream stream;
};

}  // namespace paceline::collective::testing
