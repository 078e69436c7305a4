// Pieces of parameters: what this rank's optimizer steps, where the ranks of a group divide each
// parameter among them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "paceline/core/collective/group/communicator.h"

namespace paceline::parallel {

// Elements of a parameter, in the order of its memory.
struct ParameterPiece {
  std::size_t parameter = 0;  // among the dense ones
  std::int64_t begin = 0;     // its first element
  at::Tensor leaf = {};       // of one dimension
};

struct ParameterPieces {
  // These ranks' pieces together make up the parameters.
  Communicator* ranks = nullptr;
  // This rank's, in the order of parameters. A parameter has one piece on a rank, or none.
  std::vector<ParameterPiece> own = {};

  const ParameterPiece* find(std::size_t parameter) const;  // null: this rank has none
};

}  // namespace paceline::parallel
