#include "paceline/core/collective/engine/engine_plugin.h"

namespace paceline::collective {

Result<EngineLibrary*> load_engine(std::string_view plugin,
                                   const std::vector<std::string>& folders) {
  auto found = describe_plugin<EngineEntry>(
      plugin, {kEngineEntry, kEngineInterface, "scripts/setup --launchers"}, folders);
  if (!found) return found.error();
  return found->library;
}

}  // namespace paceline::collective
