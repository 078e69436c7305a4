#include "paceline/core/device/device_plugin.h"
#include "paceline/plugins/cuda/cuda.h"

extern "C" __attribute__((visibility("default"))) paceline::device::DevicesPlugin
paceline_devices_plugin() {
  using paceline::device::kDevicesInterface;
  auto driver = paceline::cuda::load_driver();
  if (!driver) return {kDevicesInterface, nullptr, driver.error().what};
  auto devices = paceline::cuda::make_devices(*driver);
  if (!devices) return {kDevicesInterface, nullptr, devices.error().what};
  // They are never destroyed, because a thread may use them at exit.
  return {kDevicesInterface, devices->release(), {}};
}
