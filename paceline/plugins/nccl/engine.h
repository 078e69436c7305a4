// The engine library that carries collectives of device memory by NCCL.
#pragma once

#include <memory>

#include "paceline/core/collective/engine/engine.h"
#include "paceline/plugins/nccl/functions.h"

namespace paceline::nccl {

// Makes the library of one rank. `functions` are those of this process, or the reason why there are
// none.
std::unique_ptr<collective::EngineLibrary> make_library(Result<Functions> functions);

}  // namespace paceline::nccl
