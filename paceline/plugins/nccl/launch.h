// Turns one collective into calls of NCCL.
#pragma once

#include "paceline/core/collective/engine/engine.h"
#include "paceline/plugins/nccl/functions.h"
#include "paceline/plugins/nccl/words.h"

namespace paceline::nccl {

struct NcclRank {
  Comm* comm;
  int rank, ranks;
  cudaStream_t stream;
};

// Hands the call to NCCL, as one group of calls. Only reductions use `words`.
Status launch(const NcclFunctions& nccl, const NcclRank& at, const collective::EngineCall& call,
              const Words& words);

}  // namespace paceline::nccl
