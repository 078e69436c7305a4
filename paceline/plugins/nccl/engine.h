// The library that carries collectives of device memory by NCCL, behind core's engines.
#pragma once

#include <memory>

#include "paceline/core/collective/engine.h"
#include "paceline/plugins/nccl/functions.h"

namespace paceline::nccl {

// Of one rank. `functions`: those of this process, or why there are none.
std::unique_ptr<collective::EngineLibrary> make_library(Result<Functions> functions);

}  // namespace paceline::nccl
