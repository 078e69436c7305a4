// One collective as calls of NCCL.
#pragma once

#include "paceline/core/collective/engine.h"
#include "paceline/plugins/nccl/functions.h"
#include "paceline/plugins/nccl/words.h"

namespace paceline::nccl {

struct Place {
  Comm* comm;
  int rank, ranks;
  cudaStream_t stream;
};

// Hands the call to NCCL, as one group of calls. `words`: of a reduction.
Status launch(const NcclFunctions& nccl, const Place& at, const collective::EngineCall& call,
              const Words& words);

}  // namespace paceline::nccl
