#include "paceline/core/collective/engine/engine_plugin.h"

namespace paceline::collective {

Result<EngineLibrary*> load_engine(std::string_view plugin,
                                   const std::vector<std::string>& folders) {
  auto symbol = load_plugin(plugin, kEngineEntry, "scripts/setup --launchers", folders);
  if (!symbol) return symbol.error();
  const auto entry = reinterpret_cast<EngineEntry>(*symbol);
  const EnginePlugin found = entry == nullptr ? EnginePlugin{} : entry();
  if (found.interface != kEngineInterface)
    return of_another_version(plugin, found.interface, kEngineInterface);
  return found.library;
}

}  // namespace paceline::collective
