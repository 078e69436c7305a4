// Paceline's element types and reductions in NCCL's words.
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

// Nothing: NCCL has none. Bools, which are 0 or 1, are added up as bytes: "or" is their maximum,
// "and" their minimum.
std::optional<Words> words_for(ReduceOp op, Dtype dtype);

// The bytes of a factor in the accumulation type of NCCL, which is that of the elements.
std::vector<std::byte> scalar_of(Dtype dtype, double factor);

}  // namespace paceline::nccl
