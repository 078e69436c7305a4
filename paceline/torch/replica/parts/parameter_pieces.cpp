#include "paceline/torch/replica/parts/parameter_pieces.h"

#include <algorithm>

namespace paceline::parallel {

const ParameterPiece* ParameterPieces::find(std::size_t parameter) const {
  const auto found = std::ranges::lower_bound(own, parameter, {}, &ParameterPiece::parameter);
  return found == own.end() || found->parameter != parameter ? nullptr : &*found;
}

}  // namespace paceline::parallel
