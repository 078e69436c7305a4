// Several tensors in one message: their exchanges are packed into one collective.
//
// Each tensor keeps its own averaging, so scales, random numbers and bits do not depend on what it
// is fused with. Tensors of one message have the same method, so that their exchanges go together;
// one that needs none any more is left out.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging.h"

namespace paceline::compress {

struct Member {
  Part part;
  std::unique_ptr<Averaging> averaging;
};

// The gradient of the whole is the members' gradients, one after the other. An overflow of one is
// an overflow of all. state(): the members' views in their order, with their tensors. THROWS
// misuse, from begin() or next(): exchanges that do not go together.
std::unique_ptr<Averaging> fused(std::vector<Member> members);

}  // namespace paceline::compress
