// Element-wise reductions, vectorised with run-time dispatch (Highway).
//
// The operands have an order: left is the part of the lower ranks (docs/algorithms/README.md), so
// NaN payloads, and with them all bits, are the same wherever a program runs. min and max: NaN
// wins, -0 < +0. Integers wrap. A bool is false if its byte is 0, else true, and results are 0 or
// 1: sum, max and bor are "or", product, min and band are "and", bxor is "differs".
//
// f16 and bf16 are computed in f32 and rounded to the nearest (ties to even) when the result is
// stored in 16 bits; NaN results are quiet. A partial sum stored as f32 (`accumulate`) is not
// rounded: a rank adds up any number of operands with one rounding in all.
#pragma once

#include <cstdint>
#include <string_view>

#include "paceline/core/base/bytes.h"

namespace paceline {

// `average` is a sum, then one multiplication by 1/weight_total (the executor's `scale`).
enum class ReduceOp : std::uint8_t { sum = 1, average, min, max, product, band, bor, bxor };

std::string_view name_of(ReduceOp op);
bool is_known(ReduceOp op);

// Averages take floating-point types; band, bor and bxor take integers and bools; every other
// combination is allowed.
bool can_reduce(ReduceOp op, Dtype dtype);

// Tells whether results are rounded, so that the bits depend on the order and on where partial
// results are stored: sums, averages and products of floating-point types.
bool rounds(ReduceOp op, Dtype dtype);

// target[i] = left[i] OP right[i]. All three have the same length in bytes, a multiple of the
// element's size. target may be left or right itself; no other overlap is allowed. REQUIRES:
// can_reduce(op, dtype).
void reduce(ReduceOp op, Dtype dtype, Bytes left, Bytes right, MutableBytes target);

// target[i] = (left[i] OP right[i]) * factor, in f32; each of the three is f32 or a 16-bit type.
// target may begin where an operand begins, even if that has the other width; no other overlap is
// allowed. REQUIRES: equal counts.
void accumulate(ReduceOp op, ConstBuffer left, ConstBuffer right, Buffer target, double factor);

// values[i] *= factor, in f64 for f64, else in f32. REQUIRES: dtype is floating.
void scale(Dtype dtype, MutableBytes values, double factor);

}  // namespace paceline
