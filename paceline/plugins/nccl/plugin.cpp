#include "paceline/plugins/nccl/engine.h"

extern "C" __attribute__((visibility("default"))) paceline::collective::EnginePlugin
paceline_engine_plugin() {
  // A thread may still be in it at the end.
  static auto& library = *paceline::nccl::make_library(paceline::nccl::load_functions()).release();
  return {paceline::collective::kEngineInterface, &library};
}
