#include "paceline/plugins/nccl/functions.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>
#include <utility>

namespace paceline::nccl {
namespace {

constexpr std::string_view kElse =
    "see that `nvidia-smi` lists a device, or take transport auto, shm or tcp";

Failure unusable(std::string what) {
  return {Fault::misuse, std::move(what), {}};
}

class SharedObject {
 public:
  // The library stays loaded.
  explicit SharedObject(std::string file)
      : file_(std::move(file)), handle_(::dlopen(file_.c_str(), RTLD_NOW)) {
    if (handle_ == nullptr) missing_ = ::dlerror();
  }
  template <typename Function>
  SharedObject& find(const char* name, Function*& function) {
    function = handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(handle_, name));
    if (function == nullptr && missing_.empty())
      missing_ = fmt::format("{} has no {}: it is too old", file_, name);
    return *this;
  }
  const std::string& missing() const { return missing_; }  // empty: all functions were found

 private:
  const std::string file_;
  void* const handle_;
  std::string missing_;
};

Result<CudaFunctions> load_cuda() {
  SharedObject library(fmt::format("libcudart.so.{}", CUDART_VERSION / 1000));
  CudaFunctions f;
  library.find("cudaGetDeviceCount", f.get_device_count)
      .find("cudaGetDevice", f.get_device)
      .find("cudaSetDevice", f.set_device)
      .find("cudaPointerGetAttributes", f.get_attributes)
      .find("cudaStreamCreateWithFlags", f.create_stream)
      .find("cudaStreamDestroy", f.destroy_stream)
      .find("cudaEventCreateWithFlags", f.create_event)
      .find("cudaEventDestroy", f.destroy_event)
      .find("cudaEventRecord", f.record_event)
      .find("cudaStreamWaitEvent", f.wait_event)
      .find("cudaEventQuery", f.query_event)
      .find("cudaGetLastError", f.last_error)
      .find("cudaGetErrorString", f.text_of);
  if (library.missing().empty()) return f;
  return unusable(
      fmt::format("the CUDA runtime cannot be used ({}): install CUDA {} or "
                  "`pip install nvidia-cuda-runtime`, and name its lib folder in "
                  "LD_LIBRARY_PATH",
                  library.missing(), CUDART_VERSION / 1000));
}

Result<NcclFunctions> load_nccl() {
  SharedObject library("libnccl.so.2");
  NcclFunctions f;
  library.find("ncclGetUniqueId", f.get_unique_id)
      .find("ncclCommInitRankConfig", f.init)
      .find("ncclCommGetAsyncError", f.async_error)
      .find("ncclCommFinalize", f.finalize)
      .find("ncclCommDestroy", f.destroy)
      .find("ncclCommAbort", f.abort)
      .find("ncclGetErrorString", f.text_of)
      .find("ncclGetLastError", f.last_error)
      .find("ncclGroupStart", f.group_start)
      .find("ncclGroupEnd", f.group_end)
      .find("ncclRedOpCreatePreMulSum", f.make_scaled_sum)
      .find("ncclRedOpDestroy", f.free_op)
      .find("ncclAllReduce", f.all_reduce)
      .find("ncclReduce", f.reduce)
      .find("ncclReduceScatter", f.reduce_scatter)
      .find("ncclAllGather", f.all_gather)
      .find("ncclBroadcast", f.broadcast)
      .find("ncclSend", f.send)
      .find("ncclRecv", f.recv);
  if (library.missing().empty()) return f;
  return unusable(
      fmt::format("NCCL 2.14 or newer cannot be used ({}): `pip install "
                  "nvidia-nccl-cu{}`, and name its lib folder in LD_LIBRARY_PATH",
                  library.missing(), CUDART_VERSION / 1000));
}

bool has_driver() {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver != nullptr) ::dlclose(driver);
  return driver != nullptr;
}

}  // namespace

Result<int> count_devices(const CudaFunctions& cuda) {
  int count = 0;
  const cudaError_t code = cuda.get_device_count(&count);
  if (code == cudaSuccess && count > 0) return count;
  const std::string why =
      code == cudaSuccess ? "cudaGetDeviceCount finds none" : std::string(cuda.text_of(code));
  return unusable(fmt::format("there is no CUDA device here ({}): {}", why, kElse));
}

Result<Functions> load_functions() {
  // The driver is tested first, since it is what most machines lack.
  if (!has_driver())
    return unusable(
        fmt::format("there is no CUDA device here (libcuda.so.1, the NVIDIA driver, "
                    "cannot be loaded): {}",
                    kElse));
  auto cuda = load_cuda();
  if (!cuda) return cuda.error();
  auto devices = count_devices(*cuda);
  if (!devices) return devices.error();
  auto nccl = load_nccl();
  if (!nccl) return nccl.error();
  return Functions{*cuda, *nccl, *devices};
}

}  // namespace paceline::nccl
