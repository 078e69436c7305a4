#include "paceline/plugins/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

namespace paceline::cuda {
namespace {

// cuda.h renames functions to their newest versions, and the names here are those of the library.
template <typename Function>
void find(void* library, const char* name, Function*& function, std::string& missing) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  if (function == nullptr && missing.empty()) missing = name;
}

Failure unusable(const std::string& why) {
  return {
      Fault::misuse,
      fmt::format("buffers on CUDA devices cannot be used here ({}): see that `nvidia-smi` lists "
                  "a device, or copy them to the host first",
                  why),
      {}};
}

}  // namespace

Result<Driver> load_driver() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return unusable("libcuda.so.1, the NVIDIA driver, cannot be loaded");
  Driver d;
  std::string missing;
  find(library, "cuInit", d.init, missing);
  find(library, "cuDeviceGetCount", d.count_devices, missing);
  find(library, "cuDeviceGet", d.get_device, missing);
  find(library, "cuDevicePrimaryCtxRetain", d.retain_context, missing);
  find(library, "cuCtxPushCurrent_v2", d.push_context, missing);
  find(library, "cuCtxPopCurrent_v2", d.pop_context, missing);
  find(library, "cuStreamCreate", d.create_stream, missing);
  find(library, "cuStreamDestroy_v2", d.destroy_stream, missing);
  find(library, "cuEventCreate", d.create_event, missing);
  find(library, "cuEventDestroy_v2", d.destroy_event, missing);
  find(library, "cuEventRecord", d.record_event, missing);
  find(library, "cuEventQuery", d.query_event, missing);
  find(library, "cuStreamWaitEvent", d.wait_event, missing);
  find(library, "cuMemAlloc_v2", d.allocate, missing);
  find(library, "cuMemFree_v2", d.release, missing);
  find(library, "cuMemcpyAsync", d.copy, missing);
  find(library, "cuMemHostRegister_v2", d.register_host, missing);
  find(library, "cuMemHostUnregister", d.unregister_host, missing);
  find(library, "cuPointerGetAttribute", d.get_attribute, missing);
  find(library, "cuDeviceGetUuid_v2", d.get_uuid, missing);
  find(library, "cuStreamWaitValue32_v2", d.wait_value, missing);
  find(library, "cuMemHostGetDevicePointer_v2", d.device_address, missing);
  find(library, "cuMemGetAddressRange_v2", d.get_range, missing);
  find(library, "cuIpcGetMemHandle", d.get_handle, missing);
  find(library, "cuIpcOpenMemHandle_v2", d.open_handle, missing);
  find(library, "cuCtxEnablePeerAccess", d.enable_peer, missing);
  find(library, "cuModuleLoadData", d.load_module, missing);
  find(library, "cuModuleGetFunction", d.get_function, missing);
  find(library, "cuLaunchKernel", d.launch, missing);
  find(library, "cuGetErrorString", d.text_of, missing);
  if (missing.empty()) return d;
  return unusable(fmt::format("libcuda.so.1 has no {}: the NVIDIA driver is too old", missing));
}

}  // namespace paceline::cuda
