// Maps Paceline's element types and reductions to NCCL's.
#pragma once

#include <optional>
#include <vector>

#include "paceline/core/base/reduce.h"
#include "paceline/plugins/nccl/abi.h"

namespace paceline::nccl {

struct Words {
  Type type;
  Op op;
};

// Returns nothing if NCCL has no equivalent. Bools, which are 0 or 1, are reduced as bytes: "or" is
// their maximum, "and" their minimum.
std::optional<Words> words_for(ReduceOp op, Dtype dtype);

// The bytes of a factor in NCCL's accumulation type, which is that of the elements.
std::vector<std::byte> scalar_of(Dtype dtype, double factor);

}  // namespace paceline::nccl
