// The door of cuda: the CUDA devices that this process sees, for the rooms of core
// (core/device/device.h). Their contexts are the primary ones, which libtorch and the CUDA runtime
// use too. driver.h is the part of libcuda that is used, which is opened at run time, and plugin.cpp
// what core loads.
#pragma once

#include <memory>

#include "paceline/core/device/device.h"
#include "paceline/plugins/cuda/driver.h"

namespace paceline::cuda {

// The failure (misuse) says that there is no device, and the remedy.
Result<std::unique_ptr<device::Devices>> make_devices(const Driver& driver);

}  // namespace paceline::cuda
