#include "paceline/core/compress/kernels/norms.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/compress/kernels/norms.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace paceline::compress {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int32_t kMagnitude = 0x7fffffff;

// Without the sign, a value's bits are ordered as its magnitude is, and those of infinity and NaN
// are the largest.
float largest(const float* values, std::size_t count) {
  const hn::ScalableTag<std::int32_t> d;
  const hn::RebindToFloat<decltype(d)> f;
  const std::size_t lanes = hn::Lanes(d);
  const auto bits = [&](std::size_t i) {
    return hn::And(hn::BitCast(d, hn::LoadU(f, values + i)), hn::Set(d, kMagnitude));
  };
  auto a = hn::Zero(d), b = a;
  std::size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Max(a, bits(i));
    b = hn::Max(b, bits(i + lanes));
  }
  std::int32_t most = hn::GetLane(hn::MaxOfLanes(d, hn::Max(a, b)));
  for (; i < count; ++i) most = std::max(most, std::bit_cast<std::int32_t>(values[i]) & kMagnitude);
  return std::bit_cast<float>(most);
}

// Keeps 16 sums side by side, for vectors of any width: value i goes into sum i % 16. Term computes
// a value's contribution, for a vector or a double.
template <typename Term>
double sum(const float* values, std::size_t count, Term term) {
  constexpr std::size_t kSums = 16;
  const hn::CappedTag<double, kSums / 2> d;
  const hn::Rebind<float, decltype(d)> f;
  const std::size_t lanes = hn::Lanes(d);
  HWY_ALIGN double sums[kSums];
  std::size_t i = 0;
  for (std::size_t at = 0; at < kSums; at += 2 * lanes) {
    auto a = hn::Zero(d), b = a;
    for (i = 0; i + kSums <= count; i += kSums) {
      a = hn::Add(a, term(hn::PromoteTo(d, hn::LoadU(f, values + i + at))));
      b = hn::Add(b, term(hn::PromoteTo(d, hn::LoadU(f, values + i + at + lanes))));
    }
    hn::Store(a, d, sums + at);
    hn::Store(b, d, sums + at + lanes);
  }
  const hn::CappedTag<double, 1> one;
  for (; i < count; ++i) sums[i % kSums] += hn::GetLane(term(hn::Set(one, double{values[i]})));
  for (std::size_t half = kSums / 2; half > 0; half /= 2)
    for (std::size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  return sums[0];
}

double magnitudes(const float* values, std::size_t count) {
  return sum(values, count, [](auto v) { return hn::Abs(v); });
}

double squares(const float* values, std::size_t count) {
  return sum(values, count, [](auto v) { return hn::Mul(v, v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::compress {

HWY_EXPORT(largest);
HWY_EXPORT(magnitudes);
HWY_EXPORT(squares);

namespace {

// Adds in blocks, which stay in the nearest cache while they are added up, and whose sums lose less
// precision than one long sum.
template <typename Sum>
double sum_of_blocks(std::span<const float> values, Sum sum) {
  constexpr std::size_t kBlock = 4096;
  double total = 0;
  for (std::size_t at = 0; at < values.size(); at += kBlock)
    total += sum(values.data() + at, std::min(kBlock, values.size() - at));
  return total;
}

}  // namespace

float largest_magnitude(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(largest)(values.data(), values.size());
}

double sum_of_magnitudes(std::span<const float> values) {
  return sum_of_blocks(values, HWY_DYNAMIC_DISPATCH(magnitudes));
}

double sum_of_squares(std::span<const float> values) {
  return sum_of_blocks(values, HWY_DYNAMIC_DISPATCH(squares));
}

}  // namespace paceline::compress
#endif
