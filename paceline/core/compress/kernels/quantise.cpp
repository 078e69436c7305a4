#include "paceline/core/compress/kernels/quantise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/compress/kernels/quantise.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/kernels/long_output.h"
#include "paceline/core/compress/kernels/norms.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::compress {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The lanes in which word * 2^-32 < fraction, for fractions in [0, 1). The word's upper 23 bits
// make a float, and so do its lower 9. The difference of the fraction and the upper part is exact
// where the lower part decides: both are then multiples of the fraction's last digit, and less than
// twice each other.
template <typename D>
HWY_INLINE hn::Mask<D> is_below(D f, const std::uint32_t* words, hn::Vec<D> fraction) {
  const hn::RebindToUnsigned<D> u;
  const hn::RebindToSigned<D> d;
  const auto word = hn::LoadU(u, words), one = hn::BitCast(u, hn::Set(f, 1.0f));
  const auto above_one = hn::BitCast(f, hn::Or(hn::ShiftRight<9>(word), one));
  const auto upper = hn::Sub(above_one, hn::Set(f, 1.0f));
  const auto lower = hn::ConvertTo(f, hn::BitCast(d, hn::And(word, hn::Set(u, 511))));
  return hn::Gt(hn::Sub(fraction, upper), hn::Mul(lower, hn::Set(f, 0x1p-32f)));
}

// A level stays a float until the end: after adding 1.5 * 2^23, an integer is in the lowest bits in
// two's complement.
template <typename T, typename D>
HWY_INLINE void quantise_lanes(D f, const float* values, const std::uint32_t* words, float step,
                               float top, T* levels) {
  const auto value = hn::LoadU(f, values);
  const auto scaled = hn::Div(hn::Abs(value), hn::Set(f, step));
  const auto down = hn::Floor(scaled);
  const auto is_up = is_below(f, words, hn::Sub(scaled, down));
  const auto up = hn::Add(down, hn::IfThenElseZero(is_up, hn::Set(f, 1.0f)));
  const auto level = hn::CopySign(hn::Min(up, hn::Set(f, top)), value);
  const hn::RebindToUnsigned<D> u;
  const hn::Rebind<std::make_unsigned_t<T>, D> narrow;
  const auto bits = hn::BitCast(u, hn::Add(level, hn::Set(f, 0x1.8p23f)));
  hn::StoreU(hn::TruncateTo(narrow, bits), narrow,
             reinterpret_cast<std::make_unsigned_t<T>*>(levels));
}

// The address of the next block of values, if there is one: its norms are needed soon, and it can
// be prefetched here at no cost.
HWY_INLINE const float* ahead_of(const float* values) {
  constexpr std::size_t kAhead = 4096 * sizeof(float);
  return std::bit_cast<const float*>(std::bit_cast<std::uintptr_t>(values) + kAhead);
}

template <typename T>
void quantise_typed(const float* values, const std::uint32_t* words, float step, float top,
                    T* levels, std::size_t count) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hwy::Prefetch(ahead_of(values + i));
    quantise_lanes(d, values + i, words + i, step, top, levels + i);
  }
  for (; i < count; ++i) {
    quantise_lanes(hn::CappedTag<float, 1>(), values + i, words + i, step, top, levels + i);
  }
}

void quantise_8(const float* values, const std::uint32_t* words, float step, float top,
                std::int8_t* levels, std::size_t count) {
  quantise_typed(values, words, step, top, levels, count);
}

void quantise_16(const float* values, const std::uint32_t* words, float step, float top,
                 std::int16_t* levels, std::size_t count) {
  quantise_typed(values, words, step, top, levels, count);
}

template <typename T, typename D>
HWY_INLINE void dequantise_lanes(D d, const T* levels, float step, float* values) {
  const hn::RebindToFloat<D> f;
  const auto level = hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), levels));
  hn::StoreU(hn::Mul(hn::ConvertTo(f, level), hn::Set(f, step)), f, values);
}

template <typename T>
void dequantise_typed(const T* levels, float step, float* values, std::size_t count) {
  const hn::ScalableTag<std::int32_t> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) dequantise_lanes(d, levels + i, step, values + i);
  for (; i < count; ++i)
    dequantise_lanes(hn::CappedTag<std::int32_t, 1>(), levels + i, step, values + i);
}

void dequantise_8(const std::int8_t* levels, float step, float* values, std::size_t count) {
  dequantise_typed(levels, step, values, count);
}

void dequantise_16(const std::int16_t* levels, float step, float* values, std::size_t count) {
  dequantise_typed(levels, step, values, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::compress {

HWY_EXPORT(quantise_8);
HWY_EXPORT(quantise_16);
HWY_EXPORT(dequantise_8);
HWY_EXPORT(dequantise_16);

namespace {

void quantise_any(const float* values, const std::uint32_t* words, float step, int top,
                  std::span<std::int8_t> levels) {
  HWY_DYNAMIC_DISPATCH(quantise_8)
  (values, words, step, static_cast<float>(top), levels.data(), levels.size());
}

void quantise_any(const float* values, const std::uint32_t* words, float step, int top,
                  std::span<std::int16_t> levels) {
  HWY_DYNAMIC_DISPATCH(quantise_16)
  (values, words, step, static_cast<float>(top), levels.data(), levels.size());
}

void dequantise_any(std::span<const std::int8_t> levels, float step, float* values) {
  HWY_DYNAMIC_DISPATCH(dequantise_8)(levels.data(), step, values, levels.size());
}

void dequantise_any(std::span<const std::int16_t> levels, float step, float* values) {
  HWY_DYNAMIC_DISPATCH(dequantise_16)(levels.data(), step, values, levels.size());
}

// Calls piece(at, count, step) for each run of elements first + at .. first + at + count that lies
// in one bucket.
template <typename Piece>
void for_each_bucket(std::size_t first, std::size_t elements, const Scale& scale, Piece piece) {
  PACELINE_CHECK(elements == 0 || buckets_of(first + elements, scale.length) <= scale.norms.size(),
                 "{} norms of buckets of {} are too few for elements {} to {}", scale.norms.size(),
                 scale.length, first, first + elements);
  for (std::size_t at = 0; at < elements;) {
    const std::size_t bucket = (first + at) / scale.length;
    const std::size_t left = scale.length - (first + at) % scale.length;
    const std::size_t count = std::min(left, elements - at);
    piece(at, count, scale.step(bucket));
    at += count;
  }
}

template <typename Level>
void quantise_all(std::span<const float> values, std::size_t first, const Scale& scale,
                  const RandomStream& stream, std::span<Level> levels) {
  PACELINE_CHECK(levels.size() == values.size() && 0 < scale.top &&
                     scale.top <= std::numeric_limits<Level>::max(),
                 "{} values to {} levels up to {}", values.size(), levels.size(), scale.top);
  std::array<std::uint32_t, 1024> words;
  for (std::size_t block = 0; block < values.size(); block += words.size()) {
    const auto some = values.subspan(block, std::min(words.size(), values.size() - block));
    random_words(stream, first + block, std::span(words).first(some.size()));
    for_each_bucket(first + block, some.size(), scale,
                    [&](std::size_t at, std::size_t count, float step) {
                      const auto target = levels.subspan(block + at, count);
                      if (step == 0) std::ranges::fill(target, Level{0});
                      else quantise_any(&some[at], &words[at], step, scale.top, target);
                    });
  }
}

template <typename Level>
void dequantise_all(std::span<const Level> levels, std::size_t first, const Scale& scale,
                    std::span<float> values) {
  PACELINE_CHECK(levels.size() == values.size(), "{} levels to {} values", levels.size(),
                 values.size());
  for_each_bucket(first, levels.size(), scale, [&](std::size_t at, std::size_t count, float step) {
    dequantise_any(levels.subspan(at, count), step, &values[at]);
  });
}

template <typename Level>
void mean_of_all(std::span<const Level> sums, std::size_t first, const Scale& scale, int ranks,
                 std::span<float> values) {
  PACELINE_CHECK(sums.size() == values.size() && ranks > 0, "{} sums of {} ranks to {} values",
                 sums.size(), ranks, values.size());
  const auto mean_of_bucket = [&](std::size_t at, std::span<float> some, float step) {
    // If step / ranks is exactly a float, its multiples have the bits of the quotients.
    const float share = step / static_cast<float>(ranks);
    if (double{share} * ranks == double{step})
      return dequantise_any(sums.subspan(at, some.size()), share, some.data());
    for (std::size_t i = 0; i < some.size(); ++i)
      some[i] = static_cast<float>(sums[at + i] * double{step} / ranks);
  };
  decode_in_blocks(values, [&](std::size_t block, std::span<float> some) {
    for_each_bucket(first + block, some.size(), scale,
                    [&](std::size_t at, std::size_t count, float step) {
                      mean_of_bucket(block + at, some.subspan(at, count), step);
                    });
    return true;
  });
}

}  // namespace

bool bucket_norms(std::span<const float> values, std::size_t length, Norm norm,
                  std::span<float> norms) {
  PACELINE_CHECK(length > 0 && norms.size() == buckets_of(values.size(), length),
                 "{} norms of {} values in buckets of {}", norms.size(), values.size(), length);
  bool all_finite = true;
  for (std::size_t b = 0; b < norms.size(); ++b) {
    const auto bucket = values.subspan(b * length, std::min(length, values.size() - b * length));
    norms[b] = norm == Norm::max ? largest_magnitude(bucket)
                                 : static_cast<float>(std::sqrt(sum_of_squares(bucket)));
    all_finite = all_finite && std::isfinite(norms[b]);
  }
  return all_finite;
}

void quantise(std::span<const float> values, std::size_t first, const Scale& scale,
              const RandomStream& stream, std::span<std::int8_t> levels) {
  quantise_all(values, first, scale, stream, levels);
}

void quantise(std::span<const float> values, std::size_t first, const Scale& scale,
              const RandomStream& stream, std::span<std::int16_t> levels) {
  quantise_all(values, first, scale, stream, levels);
}

void dequantise(std::span<const std::int8_t> levels, std::size_t first, const Scale& scale,
                std::span<float> values) {
  dequantise_all(levels, first, scale, values);
}

void dequantise(std::span<const std::int16_t> levels, std::size_t first, const Scale& scale,
                std::span<float> values) {
  dequantise_all(levels, first, scale, values);
}

void mean_of_sums(std::span<const std::int8_t> sums, std::size_t first, const Scale& scale,
                  int ranks, std::span<float> values) {
  mean_of_all(sums, first, scale, ranks, values);
}

void mean_of_sums(std::span<const std::int16_t> sums, std::size_t first, const Scale& scale,
                  int ranks, std::span<float> values) {
  mean_of_all(sums, first, scale, ranks, values);
}

}  // namespace paceline::compress
#endif
