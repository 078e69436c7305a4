#include "paceline/plugins/nccl/engine.h"

extern "C" __attribute__((visibility("default"))) paceline::collective::EnginePlugin
paceline_engine_plugin() {
  // It is never destroyed, because a thread may use it at exit.
  static auto& library = *paceline::nccl::make_library(paceline::nccl::load_functions()).release();
  return {paceline::collective::kEngineInterface, &library};
}
