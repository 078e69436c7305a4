// Finds the shared object that knows a maker's devices and loads it (base/plugin.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/plugin.h"
#include "paceline/core/device/device.h"

namespace paceline::device {

// A plugin describes itself by this, which its function kDevicesEntry returns.
struct DevicesPlugin {
  std::string_view interface;  // kDevicesInterface of the headers that it was built with
  Devices* devices = nullptr;  // as long as the process
  std::string obstacle = {};   // why there are none
};
using DevicesEntry = DevicesPlugin (*)();
inline constexpr const char* kDevicesEntry = "paceline_devices_plugin";
// Changes with device.h and whatever it includes.
inline constexpr std::string_view kDevicesInterface = "paceline devices 1";

// "cuda" -> libpaceline_cuda.so. Stays loaded. The failure (misuse) tells why there are no devices
// here, and the remedy. THREAD: any.
Result<Devices*> load_devices(std::string_view plugin,
                              const std::vector<std::string>& folders = plugin_folders());

}  // namespace paceline::device
