// Reach: the memory of other ranks, as one CUDA device finds it: in the same process at its address,
// in another one by a handle of CUDA's IPC.
#pragma once

#include <map>
#include <mutex>

#include "paceline/core/device/device.h"
#include "paceline/plugins/cuda/context.h"

namespace paceline::cuda {

// The calls are made in the device's context. THREAD: any.
class Reach {
 public:
  // A failure: the memory was not allocated by cudaMalloc, or the system forbids it.
  static Result<device::LentMemory> lend(const Context& context, Bytes memory);
  Result<std::byte*> find(const Context& context, const device::LentMemory& memory,
                          std::size_t bytes);

 private:
  std::mutex mutex_;
  // An opened allocation stays open: opening takes 0.1 ms, and ranks lend the same ones again.
  std::map<std::array<std::byte, 64>, CUdeviceptr> opened_;
};

}  // namespace paceline::cuda
