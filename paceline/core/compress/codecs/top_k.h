// The codec top_k sends a share of the elements, those of the largest magnitude, exactly. It is a
// contraction, for use with error feedback.
#pragma once

#include "paceline/core/compress/payload/codec.h"

namespace paceline::compress {

// It sends count_of(ratio, n) of n elements. THROWS misuse: ratio is not in (0, 1].
std::unique_ptr<Codec> top_k_codec(double ratio);

}  // namespace paceline::compress
