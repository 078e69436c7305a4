#include "paceline/core/device/device_plugin.h"

namespace paceline::device {

Result<Devices*> load_devices(std::string_view plugin, const std::vector<std::string>& folders) {
  auto symbol = load_plugin(plugin, kDevicesEntry, "a machine with CUDA's headers", folders);
  if (!symbol) return symbol.error();
  const auto entry = reinterpret_cast<DevicesEntry>(*symbol);
  const DevicesPlugin found = entry == nullptr ? DevicesPlugin{} : entry();
  if (found.interface != kDevicesInterface)
    return of_another_version(plugin, found.interface, kDevicesInterface);
  if (found.devices == nullptr) return Failure{Fault::misuse, found.obstacle, {}};
  return found.devices;
}

}  // namespace paceline::device
