// Kernels: the reductions of one CUDA device, as its driver has compiled them (kernels.cu).
#pragma once

#include <array>
#include <mutex>

#include "paceline/core/device/device.h"
#include "paceline/plugins/cuda/context.h"

namespace paceline::cuda {

// THREAD: any.
class Kernels {
 public:
  // Called in the device's context.
  Result<> launch(const Context& context, const device::Reduction& reduction, CUstream stream);

 private:
  Result<CUfunction> function(const Context& context, Dtype dtype);

  std::mutex mutex_;
  CUmodule module_ = nullptr;
  std::array<CUfunction, 16> functions_ = {};  // by the number of their type
};

}  // namespace paceline::cuda
