// The functions of libcudart and libnccl that the engine calls, as values: found at run time, or
// replaced by a test's.
#pragma once

#include "paceline/core/base/result.h"
#include "paceline/plugins/nccl/abi.h"

namespace paceline::nccl {

struct CudaFunctions {
  cudaError_t (*get_device_count)(int*) = nullptr;
  cudaError_t (*get_device)(int*) = nullptr;
  cudaError_t (*set_device)(int) = nullptr;
  cudaError_t (*get_attributes)(cudaPointerAttributes*, const void*) = nullptr;
  cudaError_t (*create_stream)(cudaStream_t*, unsigned int flags) = nullptr;
  cudaError_t (*destroy_stream)(cudaStream_t) = nullptr;
  cudaError_t (*create_event)(cudaEvent_t*, unsigned int flags) = nullptr;
  cudaError_t (*destroy_event)(cudaEvent_t) = nullptr;
  cudaError_t (*record_event)(cudaEvent_t, cudaStream_t) = nullptr;
  cudaError_t (*wait_event)(cudaStream_t, cudaEvent_t, unsigned int flags) = nullptr;
  cudaError_t (*query_event)(cudaEvent_t) = nullptr;
  cudaError_t (*last_error)() = nullptr;
  const char* (*text_of)(cudaError_t) = nullptr;
};

struct NcclFunctions {
  Status (*get_unique_id)(UniqueId*) = nullptr;
  Status (*init)(Comm**, int ranks, UniqueId, int rank, Config*) = nullptr;
  Status (*async_error)(Comm*, Status*) = nullptr;
  Status (*finalize)(Comm*) = nullptr;
  Status (*destroy)(Comm*) = nullptr;
  Status (*abort)(Comm*) = nullptr;
  const char* (*text_of)(Status) = nullptr;
  const char* (*last_error)(Comm*) = nullptr;
  Status (*group_start)() = nullptr;
  Status (*group_end)() = nullptr;
  Status (*make_scaled_sum)(Op*, void* scalar, Type, Residence, Comm*) = nullptr;
  Status (*free_op)(Op, Comm*) = nullptr;
  Status (*all_reduce)(const void*, void*, std::size_t, Type, Op, Comm*, cudaStream_t) = nullptr;
  Status (*reduce)(const void*, void*, std::size_t, Type, Op, int root, Comm*,
                   cudaStream_t) = nullptr;
  Status (*reduce_scatter)(const void*, void*, std::size_t, Type, Op, Comm*,
                           cudaStream_t) = nullptr;
  Status (*all_gather)(const void*, void*, std::size_t, Type, Comm*, cudaStream_t) = nullptr;
  Status (*broadcast)(const void*, void*, std::size_t, Type, int root, Comm*,
                      cudaStream_t) = nullptr;
  Status (*send)(const void*, std::size_t, Type, int peer, Comm*, cudaStream_t) = nullptr;
  Status (*recv)(void*, std::size_t, Type, int peer, Comm*, cudaStream_t) = nullptr;
};

struct Functions {
  CudaFunctions cuda;
  NcclFunctions nccl;
  int devices = 0;  // visible to this process
};

// The failure (misuse) says whether the driver, a device or a library is missing, and the remedy.
Result<Functions> load_functions();

// Counts the devices of a process that has found libcudart already, or fails as load_functions().
Result<int> count_devices(const CudaFunctions& cuda);

}  // namespace paceline::nccl
