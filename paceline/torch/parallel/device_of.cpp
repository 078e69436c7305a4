#include "paceline/torch/parallel/device_of.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/torch.h>

#include <filesystem>
#include <mutex>
#include <string>

#include "paceline/core/base/log.h"
#include "paceline/core/base/result.h"
#include "paceline/core/membership/environment/device_choices.h"

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

// The number of the device that `sharing` neighbours have together. THROWS Error (misuse): libtorch
// does not see it.
int shared_device(const Job& job, int sharing, int devices) {
  const int number = job.local_rank() / sharing;
  if (number < devices) return number;
  throw_misuse("device_of: rank " + std::to_string(job.rank()) + ", number " +
               std::to_string(job.local_rank()) + " on its host, is to have device " +
               std::to_string(number) + " by --ranks-per-device " + std::to_string(sharing) +
               ", and libtorch sees " + std::to_string(devices) +
               " there: name as many --devices as the ranks need, see that nvidia-smi lists them, "
               "and link paceline::device");
}

}  // namespace

at::Device device_of(const Job& job) {
  tell_if_cuda_is_not_linked();
  const int devices =
      torch::cuda::is_available() ? static_cast<int>(torch::cuda::device_count()) : 0;
  const int sharing = membership::ranks_per_device().value();
  if (devices == 0 && sharing == 0) return at::kCPU;
  const int number =
      sharing > 0 ? shared_device(job, sharing, devices) : job.local_rank() % devices;
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(number));
  c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(device);
  return device;
}

}  // namespace paceline
