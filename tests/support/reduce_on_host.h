// The kernels of a device's reductions, run by the processor.
#pragma once

#include "paceline/core/device/operands.h"

namespace paceline::test {

inline void reduce_on_host(Dtype dtype, device::Step step, const device::Operands& all) {
  using namespace device;
  switch (dtype) {
    case Dtype::f64: return reduce_elements<double>(step, all, 0, 1);
    case Dtype::f32: return reduce_elements<float>(step, all, 0, 1);
    case Dtype::f16: return reduce_elements<Float16>(step, all, 0, 1);
    case Dtype::bf16: return reduce_elements<BFloat16>(step, all, 0, 1);
    case Dtype::i64: return reduce_elements<std::int64_t>(step, all, 0, 1);
    case Dtype::i32: return reduce_elements<std::int32_t>(step, all, 0, 1);
    case Dtype::i16: return reduce_elements<std::int16_t>(step, all, 0, 1);
    case Dtype::i8: return reduce_elements<std::int8_t>(step, all, 0, 1);
    case Dtype::u8: return reduce_elements<std::uint8_t>(step, all, 0, 1);
    case Dtype::boolean: return reduce_elements<Boolean>(step, all, 0, 1);
  }
}

}  // namespace paceline::test
