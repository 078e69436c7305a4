#include "paceline/core/transport/fabric/fabric_plugin.h"

namespace paceline::transport {

Result<FabricLibrary*> load_fabric(std::string_view plugin,
                                   const std::vector<std::string>& folders) {
  auto symbol = load_plugin(plugin, kFabricEntry, "scripts/setup", folders);
  if (!symbol) return symbol.error();
  const auto entry = reinterpret_cast<FabricEntry>(*symbol);
  const FabricPlugin found = entry == nullptr ? FabricPlugin{} : entry();
  if (found.interface != kFabricInterface)
    return of_another_version(plugin, found.interface, kFabricInterface);
  return found.library;
}

}  // namespace paceline::transport
