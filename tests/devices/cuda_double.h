// A double of libtorch's CUDA devices, for machines without one: libtorch_cpu finds devices, streams,
// an allocator and operators under the names that libtorch_cuda gives them.
//
// Operators run on the CPU, at once, in the memory of the double, which nobody else can read or
// write: what reaches for it in another way ends by SIGSEGV. Copies that need not block and are
// given to a stream of their own run as late as they may: when somebody asks for an event behind
// them, after some looks that are drawn, or when a stream is told to wait for one. So an event or a
// wait that is left out shows as a wrong number.
#pragma once

#include <cstdint>

#include "paceline/core/device/device.h"

namespace paceline::test {

inline constexpr int kDevices = 4;

// Counts of this process so far.
struct SeenByDouble {
  std::int64_t late_copies = 0;  // that ran later than they were given
  // The host has waited for a stream that computes, or for a whole stream or event, other than by
  // asking.
  std::int64_t waits = 0;
  std::int64_t allocations = 0;  // of memory of the device
  std::int64_t reductions = 0;   // kernels of doubled_devices()
  std::int64_t copied = 0;       // bytes, by doubled_devices(), either way
};
SeenByDouble seen_by_double();

// The same devices for Paceline's own calls. Its streams are as late as those of copies.
device::Devices& doubled_devices();

}  // namespace paceline::test
