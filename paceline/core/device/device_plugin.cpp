#include "paceline/core/device/device_plugin.h"

namespace paceline::device {

Result<Devices*> load_devices(std::string_view plugin, const std::vector<std::string>& folders) {
  auto found = describe_plugin<DevicesEntry>(
      plugin, {kDevicesEntry, kDevicesInterface, "a machine with CUDA's headers"}, folders);
  if (!found) return found.error();
  if (found->devices == nullptr) return Failure{Fault::misuse, found->obstacle, {}};
  return found->devices;
}

}  // namespace paceline::device
