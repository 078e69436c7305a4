// What each offer of a compression would make of a tensor's gradient, found by trying it.
#pragma once

#include <span>

#include "paceline/core/compress/compression.h"
#include "paceline/core/compress/ratio_choice.h"

namespace paceline::compress {

// One Offer for each of the compression's, in bytes that a rank brings to exchanges; of a tensor
// that is not compressed, the one that it travels whole. Each begins with no state, on one rank
// alone. An error that is not finite: there is none, as the gradient is not, or overflows.
// REQUIRES: part.elements() of them. COST: encodes and decodes the gradient once for each.
Menu tried_offers(const Compression& compression, Part part, std::span<const float> gradient);

}  // namespace paceline::compress
