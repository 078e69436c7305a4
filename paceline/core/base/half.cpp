#include "paceline/core/base/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/base/half.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "paceline/core/base/check.h"

HWY_BEFORE_NAMESPACE();
namespace paceline {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Each lane holds the bits of one value: 16 bits on one side, those of an f32 on the other. Without
// the sign, a value's bits are ordered as the value is, so comparisons are integer comparisons.
constexpr std::int32_t kSign = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kInfinity = 0x7f800000;

struct BFloat16 {
  template <typename D>
  static hn::Vec<D> widened(D, hn::Vec<D> bits) {
    return hn::ShiftLeft<16>(bits);
  }

  template <typename D>
  static hn::Vec<D> narrowed(D d, hn::Vec<D> bits) {
    const auto high = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 0xffff));
    const auto is_nan = hn::Gt(hn::AndNot(hn::Set(d, kSign), bits), hn::Set(d, kInfinity));
    const auto odd = hn::And(high, hn::Set(d, 1));
    const auto rounded = hn::And(
        hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fff)))), hn::Set(d, 0xffff));
    return hn::IfThenElse(is_nan, hn::Or(high, hn::Set(d, 0x40)), rounded);
  }
};

// The exponent has 5 bits instead of 8. Small values have fewer digits; a float addition pushes the
// surplus digits out at the right place (F. Giesen, "half to float done quick", public domain).
struct Float16 {
  // Infinities and NaNs.
  template <typename D>
  static hn::Vec<D> special(D d, hn::Vec<D> bits) {
    const auto rest = hn::ShiftLeft<13>(hn::And(bits, hn::Set(d, 0x7fff)));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(d, 0x8000)));
    return hn::Or(hn::Add(rest, hn::Set(d, (255 - 31) << 23)), sign);
  }

  template <typename D>
  static hn::Vec<D> widened(D d, hn::Vec<D> bits) {
    const hn::RebindToFloat<D> f;
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(d, 0x8000)));
    const auto rest = hn::ShiftLeft<13>(hn::And(bits, hn::Set(d, 0x7fff)));
    const auto normal = hn::Add(rest, hn::Set(d, (127 - 15) << 23));
    const auto special = hn::Add(rest, hn::Set(d, (255 - 31) << 23));
    const auto smallest = hn::Set(d, (127 - 14) << 23);
    const auto small =
        hn::BitCast(d, hn::Sub(hn::BitCast(f, hn::Add(rest, smallest)), hn::BitCast(f, smallest)));
    auto value = hn::IfThenElse(hn::Lt(rest, hn::Set(d, 1 << 23)), small, normal);
    value = hn::IfThenElse(hn::Lt(rest, hn::Set(d, 31 << 23)), value, special);
    return hn::Or(value, sign);
  }

  template <typename D>
  static hn::Vec<D> narrowed(D d, hn::Vec<D> bits) {
    const hn::RebindToFloat<D> f;
    const auto rest = hn::AndNot(hn::Set(d, kSign), bits);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 0x8000));
    const auto odd = hn::And(hn::ShiftRight<13>(rest), hn::Set(d, 1));
    const auto rebased = hn::Add(rest, hn::Set(d, 0xfff - ((127 - 15) << 23)));
    const auto normal = hn::ShiftRight<13>(hn::Add(rebased, odd));
    const auto half = hn::Set(d, 126 << 23);
    const auto small =
        hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(f, rest), hn::BitCast(f, half))), half);
    const auto nan =
        hn::Or(hn::And(hn::ShiftRight<13>(rest), hn::Set(d, 0x3ff)), hn::Set(d, 0x7e00));
    auto value = hn::IfThenElse(hn::Lt(rest, hn::Set(d, (127 - 14) << 23)), small, normal);
    value = hn::IfThenElse(hn::Lt(rest, hn::Set(d, (127 + 16) << 23)), value, hn::Set(d, 0x7c00));
    return hn::Or(hn::IfThenElse(hn::Gt(rest, hn::Set(d, kInfinity)), nan, value), sign);
  }
};

// x86 processors with AVX2 convert f16 themselves, by the same rules but for one: widening makes
// NaNs quiet.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
template <typename Format>
constexpr bool kInHardware = std::is_same_v<Format, Float16>;
#else
template <typename Format>
constexpr bool kInHardware = false;
#endif

template <typename Format, typename D>
void widen_lanes(D d, const std::uint16_t* from, float* to) {
  const hn::Rebind<std::uint16_t, D> d16;
  if constexpr (kInHardware<Format>) {
    const hn::RebindToFloat<D> f;
    const auto halves = hn::LoadU(d16, from);
    const auto value = hn::PromoteTo(f, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), halves));
    hn::StoreU(value, f, to);
    const auto is_nan = hn::IsNaN(value);
    if (!hn::AllFalse(f, is_nan)) {
      const auto special = hn::BitCast(f, Format::special(d, hn::PromoteTo(d, halves)));
      hn::StoreU(hn::IfThenElse(is_nan, special, value), f, to);
    }
    return;
  }
  hn::StoreU(hn::BitCast(hn::RebindToFloat<D>(),
                         Format::widened(d, hn::PromoteTo(d, hn::LoadU(d16, from)))),
             hn::RebindToFloat<D>(), to);
}

template <typename Format, typename D>
void narrow_lanes(D d, const float* from, std::uint16_t* to) {
  const hn::Rebind<std::uint16_t, D> d16;
  if constexpr (kInHardware<Format>) {
    const auto halves =
        hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), hn::LoadU(hn::RebindToFloat<D>(), from));
    return hn::StoreU(hn::BitCast(d16, halves), d16, to);
  }
  const auto bits = hn::BitCast(d, hn::LoadU(hn::RebindToFloat<D>(), from));
  hn::StoreU(hn::DemoteTo(d16, Format::narrowed(d, bits)), d16, to);
}

template <typename Format>
void widen_all(const std::uint16_t* from, float* to, std::size_t count) {
  const hn::ScalableTag<std::int32_t> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) widen_lanes<Format>(d, from + i, to + i);
  for (; i < count; ++i) widen_lanes<Format>(hn::CappedTag<std::int32_t, 1>(), from + i, to + i);
}

template <typename Format>
void narrow_all(const float* from, std::uint16_t* to, std::size_t count) {
  const hn::ScalableTag<std::int32_t> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) narrow_lanes<Format>(d, from + i, to + i);
  for (; i < count; ++i) narrow_lanes<Format>(hn::CappedTag<std::int32_t, 1>(), from + i, to + i);
}

void widen_any(Dtype dtype, const std::uint16_t* from, float* to, std::size_t count) {
  dtype == Dtype::bf16 ? widen_all<BFloat16>(from, to, count) : widen_all<Float16>(from, to, count);
}

void narrow_any(Dtype dtype, const float* from, std::uint16_t* to, std::size_t count) {
  dtype == Dtype::bf16 ? narrow_all<BFloat16>(from, to, count)
                       : narrow_all<Float16>(from, to, count);
}

// Without the sign, a half's bits are ordered as its magnitude is.
std::int32_t largest_bits(const std::uint16_t* halves, std::size_t count) {
  const hn::ScalableTag<std::uint16_t> d;
  const hn::RebindToSigned<decltype(d)> s;
  const std::size_t lanes = hn::Lanes(d);
  const auto magnitudes = hn::Set(s, 0x7fff);
  auto most = hn::Zero(s);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    most = hn::Max(most, hn::And(hn::BitCast(s, hn::LoadU(d, halves + i)), magnitudes));
  HWY_ALIGN std::int16_t each[HWY_MAX_BYTES / sizeof(std::int16_t)];
  hn::Store(most, s, each);
  std::int32_t largest = *std::max_element(each, each + lanes);
  for (; i < count; ++i) {
    std::uint16_t half;
    std::memcpy(&half, halves + i, sizeof half);
    largest = std::max(largest, half & 0x7fff);
  }
  return largest;
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline {

HWY_EXPORT(widen_any);
HWY_EXPORT(narrow_any);
HWY_EXPORT(largest_bits);

bool is_half(Dtype dtype) {
  return dtype == Dtype::f16 || dtype == Dtype::bf16;
}

bool all_finite(Dtype dtype, Bytes halves) {
  PACELINE_CHECK(is_half(dtype) && halves.size() % 2 == 0, "{} bytes of {}", halves.size(),
                 name_of(dtype));
  const std::int32_t largest = HWY_DYNAMIC_DISPATCH(largest_bits)(
      reinterpret_cast<const std::uint16_t*>(halves.data()), halves.size() / 2);
  return largest < (dtype == Dtype::f16 ? 0x7c00 : 0x7f80);
}

void widen(Dtype dtype, Bytes from, std::span<float> to) {
  PACELINE_CHECK(is_half(dtype) && from.size() == 2 * to.size(),
                 "widen of {} bytes of {} to {} f32", from.size(), name_of(dtype), to.size());
  HWY_DYNAMIC_DISPATCH(widen_any)
  (dtype, reinterpret_cast<const std::uint16_t*>(from.data()), to.data(), to.size());
}

void narrow(Dtype dtype, std::span<const float> from, MutableBytes to) {
  PACELINE_CHECK(is_half(dtype) && to.size() == 2 * from.size(),
                 "narrow of {} f32 to {} bytes of {}", from.size(), to.size(), name_of(dtype));
  HWY_DYNAMIC_DISPATCH(narrow_any)
  (dtype, from.data(), reinterpret_cast<std::uint16_t*>(to.data()), from.size());
}

}  // namespace paceline
#endif
