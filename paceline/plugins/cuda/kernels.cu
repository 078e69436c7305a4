// The kernels of a device's reductions, one for each type. kernels.ptx is made from this by
//   scripts/kernels
// and is compiled for the device at hand by its driver, so that building takes no CUDA toolkit.
#include "paceline/core/device/reduce_elements.h"

#if defined(__clang__) && !defined(__NVCC__)  // without the toolkit's headers
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#endif

namespace {

using namespace paceline::device;

template <typename T>
__device__ void reduce(const Operands& all, Step step) {
#if defined(__clang__) && !defined(__NVCC__)
  const std::uint64_t block = __nvvm_read_ptx_sreg_ctaid_x(), width = __nvvm_read_ptx_sreg_ntid_x(),
                      thread = __nvvm_read_ptx_sreg_tid_x(),
                      blocks = __nvvm_read_ptx_sreg_nctaid_x();
#else
  const std::uint64_t block = blockIdx.x, width = blockDim.x, thread = threadIdx.x,
                      blocks = gridDim.x;
#endif
  reduce_elements<T>(step, all, block * width + thread, blocks * width);
}

}  // namespace

extern "C" {
__global__ void reduce_f64(Operands all, Step step) {
  reduce<double>(all, step);
}
__global__ void reduce_f32(Operands all, Step step) {
  reduce<float>(all, step);
}
__global__ void reduce_f16(Operands all, Step step) {
  reduce<Float16>(all, step);
}
__global__ void reduce_bf16(Operands all, Step step) {
  reduce<BFloat16>(all, step);
}
__global__ void reduce_i64(Operands all, Step step) {
  reduce<std::int64_t>(all, step);
}
__global__ void reduce_i32(Operands all, Step step) {
  reduce<std::int32_t>(all, step);
}
__global__ void reduce_i16(Operands all, Step step) {
  reduce<std::int16_t>(all, step);
}
__global__ void reduce_i8(Operands all, Step step) {
  reduce<std::int8_t>(all, step);
}
__global__ void reduce_u8(Operands all, Step step) {
  reduce<std::uint8_t>(all, step);
}
__global__ void reduce_bool(Operands all, Step step) {
  reduce<Boolean>(all, step);
}
}
