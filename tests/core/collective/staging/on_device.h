// Shared parts of the tests of buffers on devices: worlds whose jobs see doubles of devices
// (tests/support/late_device.h), and vectors in the doubles' memory.
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
  std::chrono::milliseconds timeout = 60s;
  std::chrono::milliseconds stall_time = 5s;
  membership::DeviceTransport transport = membership::DeviceTransport::automatic;
  std::size_t staged_piece = 0;  // bytes; 0: as usual
};

inline void run_with(test::LateDevices& devices, int ranks, const DeviceWorld& world,
                     const std::function<void(Job&)>& body) {
  const LocalWorldOptions options{.share_memory = world.share_memory,
                                  .reproducible = world.reproducible,
                                  .operation_timeout = world.timeout,
                                  .stall_time = world.stall_time};
  run_ranks(ranks, options, [&](Job& job) {
    job::use_devices(job, devices, world.all_on_device, world.transport, world.staged_piece);
    body(job);
  });
}

// A vector in the memory of the device with this number.
template <typename T>
struct VectorOnDevice {
  VectorOnDevice(test::LateDevice& device, std::size_t count, device::Stream stream, int number = 0)
      : memory(device, count * sizeof(T)), count(count), stream(stream), number(number) {}
  Buffer buffer() const {
    return {memory.data(),
            count,
            dtype_of<T>(),
            {.kind = Memory::Kind::cuda, .device = number, .stream = stream}};
  }
  T* values() const { return reinterpret_cast<T*>(memory.on_host().data()); }
  // At once, whatever the stream has still to do.
  void write(const std::vector<T>& values) const {
    std::memcpy(memory.on_host().data(), values.data(), count * sizeof(T));
  }
  std::vector<T> read() const {
    std::vector<T> values(count);
    std::memcpy(values.data(), memory.on_host().data(), count * sizeof(T));
    return values;
  }
  test::DeviceMemory memory;
  std::size_t count;
  device::Stream stream;
  int number;
};

using OnDevice = VectorOnDevice<float>;

}  // namespace paceline::collective::testing
