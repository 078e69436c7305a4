// The codec top_k: a share of the elements, those of the largest magnitude, exactly. A contraction,
// to be used with error feedback.
#pragma once

#include "paceline/core/compress/codec.h"

namespace paceline::compress {

// count_of(ratio, n) of n elements. THROWS misuse: ratio is not in (0, 1].
std::unique_ptr<Codec> top_k_codec(double ratio);

}  // namespace paceline::compress
