// The public header of the NCCL engine: collectives of buffers in the memory of CUDA devices.
//
// `paceline run --transport nccl` (PACELINE_TRANSPORT=nccl) gives every group an NCCL communicator
// beside Paceline's links: NCCL carries buffers in device memory, programs carry those on the host
// as before. Rank r of a host uses device r, or the only one that it sees. engine.cpp is the
// engine, functions.h lists the functions of libnccl and libcudart that it calls, both loaded at
// run time; docs/decisions/0014-nccl-for-device-memory.md says what it promises.
#pragma once

#include "paceline/core/base/bytes.h"

namespace paceline {

// A buffer of `count` elements at `data` on a CUDA device. An operation begins once all work that
// `stream` (a cudaStream_t; nullptr: the default stream) held at the last rank's call is done, and
// Work::wait() returns when the data are there.
template <typename T>
Buffer device_buffer_of(T* data, std::size_t count, int device, void* stream = nullptr) {
  return {reinterpret_cast<std::byte*>(data),
          count,
          dtype_of<T>(),
          {.kind = Memory::Kind::cuda, .device = device, .stream = stream}};
}

}  // namespace paceline
