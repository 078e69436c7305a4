// left OP right into target: the one place where a sum is rounded and an average scaled.
#pragma once

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/reduce.h"

namespace paceline::collective {

// A block of a long reduction, in bytes of the target: it stays in the nearest cache with its
// operands, until it is stored where else it belongs.
constexpr std::size_t kReductionBlock = 4032;

// `factor` multiplies the result; 1 but for the last sum of an average. Where a 16-bit type is
// summed up each of the three may also be f32. REQUIRES: equal counts.
void combine(ReduceOp op, ConstBuffer left, ConstBuffer right, Buffer target, double factor);

}  // namespace paceline::collective
