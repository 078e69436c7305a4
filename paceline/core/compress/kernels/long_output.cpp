#include "paceline/core/compress/kernels/long_output.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/compress/kernels/long_output.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <bit>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace paceline::compress {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void copy_streaming(const std::uint8_t* from, std::uint8_t* to, std::size_t count) {
  constexpr std::size_t kLine = 64;  // a cache line: only whole lines can bypass the cache
  std::size_t i = 0;
  for (; i < count && std::bit_cast<std::uintptr_t>(to + i) % kLine != 0; ++i) to[i] = from[i];
  const hn::CappedTag<std::uint8_t, kLine> d;
  const std::size_t lanes = hn::Lanes(d);
  for (; i + kLine <= count; i += kLine) {
    for (std::size_t j = i; j < i + kLine; j += lanes)
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

void copy_past_caches(Bytes from, MutableBytes to) {
  HWY_DYNAMIC_DISPATCH(copy_streaming)
  (reinterpret_cast<const std::uint8_t*>(from.data()), reinterpret_cast<std::uint8_t*>(to.data()),
   to.size());
}

void finish_copies() {
  hwy::FlushStream();
}

}  // namespace paceline::compress
#endif
