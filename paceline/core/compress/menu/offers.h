// The bytes and the error of each offer of a compression, measured by trying it on a gradient.
#pragma once

#include <span>

#include "paceline/core/compress/menu/ratio_choice.h"
#include "paceline/core/compress/methods/compression.h"

namespace paceline::compress {

// Returns one Offer for each offer of the compression, in bytes that a rank brings to exchanges; a
// tensor that is not compressed has the single offer to travel whole. Each trial begins without
// state, on one rank alone. An error that is not finite means that no result exists, because the
// gradient is not finite or overflows. REQUIRES: gradient.size() == part.elements(). COST: encodes
// and decodes the gradient once for each offer.
Menu tried_offers(const Compression& compression, Part part, std::span<const float> gradient);

}  // namespace paceline::compress
