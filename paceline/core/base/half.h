// Converts the 16-bit floating-point types to f32 and back, vectorised with run-time dispatch
// (Highway).
//
// Their sums are made in f32 (reduce.h). The conversions use integers, so that the bits are the
// same on every processor, whatever instructions it has.
#pragma once

#include <span>

#include "paceline/core/base/bytes.h"

namespace paceline {

// True for f16 and bf16.
bool is_half(Dtype dtype);

// Converts exactly; NaNs keep sign and payload. REQUIRES: is_half(dtype); from.size() == 2 *
// to.size().
void widen(Dtype dtype, Bytes from, std::span<float> to);

// Rounds to the nearest, ties to even. Values that are too large become infinite; a NaN becomes
// quiet and keeps sign and upper payload. `to` may be the first half of `from`. REQUIRES:
// is_half(dtype); to.size() == 2 * from.size().
void narrow(Dtype dtype, std::span<const float> from, MutableBytes to);

// Tells whether no value is infinite or NaN. REQUIRES: is_half(dtype).
bool all_finite(Dtype dtype, Bytes halves);

}  // namespace paceline
