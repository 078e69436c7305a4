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

#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

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

// --- the order of sums ---------------------------------------------------------------------------
//
// `reproducible` promises one summation tree: balanced, over operands in order
// (docs/algorithms/README.md), split at the largest power of two below the count, for 5:
// ((0+1)+(2+3))+4. Adding neighbours level by level, and letting an odd one out wait, gives the
// same tree, so the additions of a level do not depend on each other.

// ceil(lg count): the levels of the tree. REQUIRES: count >= 1.
constexpr int tree_levels(int count) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(count) - 1u));
}

// The tree over `values` with a function (left, right) -> sum; the sum is the one value that stays.
// REQUIRES: values is not empty.
template <typename T, typename Add>
void sum_in_place(std::vector<T>& values, Add add) {
  while (values.size() > 1) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < values.size(); i += 2) {
      values[kept++] = i + 1 < values.size() ? add(values[i], values[i + 1]) : values[i];
    }
    values.resize(kept);
  }
}
template <typename T, typename Add>
T balanced_sum(std::vector<T> values, Add add) {
  sum_in_place(values, add);
  return values.front();
}

}  // namespace paceline
