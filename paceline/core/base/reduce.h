// Element-wise reductions, vectorised with run-time dispatch (Highway).
//
// The operands have an order: left is the part of the lower ranks (specification A0.1, R1), so that NaN payloads
// and with them all bits are the same wherever a program runs. min and max: NaN wins, -0 < +0 (A0 point 5).
#pragma once

#include <cstdint>
#include <string_view>

#include "paceline/core/base/bytes.h"

namespace paceline {

// `average` is a sum, then one multiplication by 1/weight_total (the executor's `scale`).
enum class ReduceOp : std::uint8_t { sum = 1, average, min, max };

std::string_view name_of(ReduceOp op);
bool is_known(ReduceOp op);

// target[i] = left[i] OP right[i]. All three have the same length in bytes, a multiple of the element's size; target may be
// left or right itself, but no other overlap is allowed. REQUIRES: can_reduce(dtype).
void reduce(ReduceOp op, Dtype dtype, Bytes left, Bytes right, MutableBytes target);

// values[i] *= factor, in f32 for f32 and in f64 for f64. REQUIRES: dtype is f32 or f64.
void scale(Dtype dtype, MutableBytes values, double factor);

}  // namespace paceline
