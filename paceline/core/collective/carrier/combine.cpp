#include "paceline/core/collective/carrier/combine.h"

#include "paceline/core/base/half.h"

namespace paceline::collective {

void combine(ReduceOp op, ConstBuffer left, ConstBuffer right, Buffer target, double factor) {
  if (is_half(left.dtype) || is_half(right.dtype) || is_half(target.dtype))
    return accumulate(op, left, right, target, factor);
  reduce(op, target.dtype, left.bytes(), right.bytes(), target.bytes());
  if (factor != 1.0) scale(target.dtype, target.bytes(), factor);
}

}  // namespace paceline::collective
