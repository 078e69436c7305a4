#include "paceline/core/compress/long_output.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/compress/long_output.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <bit>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace paceline::compress {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void copy_streaming(const float* from, float* to, std::size_t count) {
  constexpr std::size_t kLine = 64;  // bytes of a cache line: only whole ones pass by the caches
  std::size_t i = 0;
  for (; i < count && std::bit_cast<std::uintptr_t>(to + i) % kLine != 0; ++i) to[i] = from[i];
  const hn::CappedTag<float, kLine / sizeof(float)> d;
  const std::size_t lanes = hn::Lanes(d);
  for (; i + kLine / sizeof(float) <= count; i += kLine / sizeof(float)) {
    for (std::size_t j = i; j < i + kLine / sizeof(float); j += lanes)
      hn::Stream(hn::LoadU(d, from + j), d, to + j);
  }
  for (; i < count; ++i) to[i] = from[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::compress {

HWY_EXPORT(copy_streaming);

void copy_past_caches(std::span<const float> from, std::span<float> to) {
  HWY_DYNAMIC_DISPATCH(copy_streaming)(from.data(), to.data(), to.size());
}

void finish_copies() {
  hwy::FlushStream();
}

}  // namespace paceline::compress
#endif
