#include "paceline/torch/parallel/scaled_copy.h"

#include <torch/torch.h>

#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace paceline::parallel {
namespace {

#if defined(__SSE2__)
constexpr std::size_t kLarge = std::size_t{256}
                               << 10;  // bytes; smaller ones may as well stay in the cache

inline __m128 times(__m128 a, __m128 b) {
  return _mm_mul_ps(a, b);
}
inline __m128d times(__m128d a, __m128d b) {
  return _mm_mul_pd(a, b);
}
inline __m128 load(const float* from) {
  return _mm_loadu_ps(from);
}
inline __m128d load(const double* from) {
  return _mm_loadu_pd(from);
}
inline void stream(float* to, __m128 value) {
  _mm_stream_ps(to, value);
}
inline void stream(double* to, __m128d value) {
  _mm_stream_pd(to, value);
}
inline __m128 all(float value) {
  return _mm_set1_ps(value);
}
inline __m128d all(double value) {
  return _mm_set1_pd(value);
}

template <typename T>
void stream_scaled(const T* from, T factor, T* to, std::size_t count) {
  constexpr std::size_t kLanes = 16 / sizeof(T), kLine = 64 / sizeof(T);
  const auto factors = all(factor);
  std::size_t i = 0;
  for (; i < count && reinterpret_cast<std::uintptr_t>(to + i) % 64 != 0; ++i)
    to[i] = from[i] * factor;
  for (; i + kLine <= count; i += kLine) {
    for (std::size_t k = 0; k < kLine; k += kLanes)
      stream(to + i + k, times(load(from + i + k), factors));
  }
  for (; i < count; ++i) to[i] = from[i] * factor;
  _mm_sfence();  // the collective that follows must find the values in memory
}

bool stream_whole(const at::Tensor& from, double factor, at::Tensor& to) {
  if (from.nbytes() < kLarge || from.strides() != to.strides() ||
      !from.is_non_overlapping_and_dense())
    return false;
  const auto count = static_cast<std::size_t>(from.numel());
  if (from.scalar_type() == at::kFloat && to.scalar_type() == at::kFloat) {
    stream_scaled(from.const_data_ptr<float>(), static_cast<float>(factor), to.data_ptr<float>(),
                  count);
  } else if (from.scalar_type() == at::kDouble && to.scalar_type() == at::kDouble) {
    stream_scaled(from.const_data_ptr<double>(), factor, to.data_ptr<double>(), count);
  } else {
    return false;
  }
  return true;
}
#else
bool stream_whole(const at::Tensor&, double, at::Tensor&) {
  return false;
}
#endif

}  // namespace

void scaled_copy(const at::Tensor& from, double factor, at::Tensor& to) {
  if (stream_whole(from, factor, to)) {
    to.unsafeGetTensorImpl()->bump_version();
  } else if (factor == 1) {
    to.copy_(from);
  } else {
    at::mul_out(to, from, at::scalar_tensor(factor, at::kDouble));
  }
}

}  // namespace paceline::parallel
