// Several tensors share one message: their exchanges are packed into one collective.
//
// Each tensor keeps its own averaging, so scales, random numbers and bits do not depend on the
// tensors that it is fused with. Tensors of one message have the same method, so that their
// exchanges can be packed; a tensor that needs no further exchange is left out.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

struct Member {
  Part part;
  std::unique_ptr<Averaging> averaging;
};

// The fused gradient is the members' gradients, one after the other. An overflow of one is an
// overflow of all. state() returns the members' views in their order, with their tensors. THROWS
// misuse, from begin() or next(): exchanges that cannot be packed.
std::unique_ptr<Averaging> fused(std::vector<Member> members);

}  // namespace paceline::compress
