#include "paceline/torch/parallel/device_of.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <filesystem>
#include <mutex>

#include "paceline/core/base/log.h"

namespace paceline {
namespace {

void tell_if_cuda_is_not_linked() {
  static std::once_flag told;
  std::error_code ignored;
  if (at::globalContext().hasCUDA() || !std::filesystem::exists("/dev/nvidiactl", ignored)) return;
  std::call_once(told, [] {
    warn(
        "this host has an NVIDIA device, and libtorch sees none, so that the CPU is used: link the "
        "program with paceline::device, which brings libtorch_cuda, and see that nvidia-smi works");
  });
}

}  // namespace

at::Device device_of(const Job& job) {
  tell_if_cuda_is_not_linked();
  const c10::DeviceIndex devices = torch::cuda::is_available() ? torch::cuda::device_count() : 0;
  if (devices == 0) return at::kCPU;
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(job.local_rank() % devices));
  c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(device);
  return device;
}

}  // namespace paceline
