// The door of the NCCL engine: collectives of buffers that lie in the memory of CUDA devices.
//
// `paceline run --transport nccl` (PACELINE_TRANSPORT=nccl) gives every group an NCCL communicator
// beside Paceline's links: buffers in device memory go by NCCL, those on the host by programs, as
// ever. Rank r of a host has device r, or the only one that it sees. engine.cpp is the engine,
// functions.h what it calls of libnccl and libcudart, both loaded at run time; what it promises:
// docs/decisions/0014-nccl-for-device-memory.md.
#pragma once

#include "paceline/core/base/bytes.h"

namespace paceline {

// `count` elements at `data` on a CUDA device. An operation begins when all that `stream` (a
// cudaStream_t; nullptr: the default stream) held when the last rank made the call is done, and
// Work::wait() returns when the data are there.
template <typename T>
Buffer device_buffer_of(T* data, std::size_t count, int device, void* stream = nullptr) {
  return {reinterpret_cast<std::byte*>(data),
          count,
          dtype_of<T>(),
          {.kind = Memory::Kind::cuda, .device = device, .stream = stream}};
}

}  // namespace paceline
