// The functions of CUDA's driver that the devices use, as values: found in libcuda when a job asks
// for them, or replaced by a test's. Building takes CUDA's header alone.
#pragma once

#include <cuda.h>

#include "paceline/core/base/result.h"

namespace paceline::cuda {

struct Driver {
  CUresult (*init)(unsigned int flags) = nullptr;
  CUresult (*count_devices)(int*) = nullptr;
  CUresult (*get_device)(CUdevice*, int number) = nullptr;
  CUresult (*retain_context)(CUcontext*, CUdevice) = nullptr;
  CUresult (*push_context)(CUcontext) = nullptr;
  CUresult (*pop_context)(CUcontext*) = nullptr;
  CUresult (*create_stream)(CUstream*, unsigned int flags) = nullptr;
  CUresult (*destroy_stream)(CUstream) = nullptr;
  CUresult (*create_event)(CUevent*, unsigned int flags) = nullptr;
  CUresult (*destroy_event)(CUevent) = nullptr;
  CUresult (*record_event)(CUevent, CUstream) = nullptr;
  CUresult (*query_event)(CUevent) = nullptr;
  CUresult (*wait_event)(CUstream, CUevent, unsigned int flags) = nullptr;
  CUresult (*allocate)(CUdeviceptr*, std::size_t bytes) = nullptr;
  CUresult (*release)(CUdeviceptr) = nullptr;
  CUresult (*copy)(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) = nullptr;
  CUresult (*register_host)(void*, std::size_t bytes, unsigned int flags) = nullptr;
  CUresult (*unregister_host)(void*) = nullptr;
  CUresult (*get_attribute)(void* into, CUpointer_attribute, CUdeviceptr) = nullptr;
  CUresult (*get_uuid)(CUuuid*, CUdevice) = nullptr;
  CUresult (*wait_value)(CUstream, CUdeviceptr, cuuint32_t value, unsigned int flags) = nullptr;
  CUresult (*device_address)(CUdeviceptr*, void* registered, unsigned int flags) = nullptr;
  CUresult (*get_range)(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr) = nullptr;
  CUresult (*get_handle)(CUipcMemHandle*, CUdeviceptr) = nullptr;
  CUresult (*open_handle)(CUdeviceptr*, CUipcMemHandle, unsigned int flags) = nullptr;
  CUresult (*enable_peer)(CUcontext of_peer, unsigned int flags) = nullptr;
  CUresult (*load_module)(CUmodule*, const void* text) = nullptr;
  CUresult (*get_function)(CUfunction*, CUmodule, const char* name) = nullptr;
  CUresult (*launch)(CUfunction, unsigned int blocks, unsigned int, unsigned int,
                     unsigned int threads, unsigned int, unsigned int, unsigned int shared_bytes,
                     CUstream, void** arguments, void** extra) = nullptr;
  CUresult (*text_of)(CUresult, const char**) = nullptr;
};

// The failure (misuse) says that the driver is missing or too old, and the remedy.
Result<Driver> load_driver();

}  // namespace paceline::cuda
