// The codecs fp16 and bf16 round values to the nearest, ties to even, 2 bytes each.
//
// They do not saturate: a finite value that would become infinite is an overflow
// (docs/compression/fp16.md).
#pragma once

#include "paceline/core/compress/payload/codec.h"

namespace paceline::compress {

// REQUIRES: is_half(dtype).
std::unique_ptr<Codec> cast_codec(Dtype dtype);

}  // namespace paceline::compress
