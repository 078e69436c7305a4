#include "paceline/core/schedule/replay/compute_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/schedule/replay/compute_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "paceline/core/base/check.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/base/stopwatch.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::schedule {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The sum of the elements of left^T right, for `depth` rows of 4 and 16 values. It keeps as many
// sums side by side as occupy the multipliers.
float product(const float* left, const float* right, std::size_t depth) {
  const hn::CappedTag<float, 8> d;
  const std::size_t lanes = hn::Lanes(d);
  float total = 0;
  for (std::size_t column = 0; column < 16; column += 2 * lanes) {
    auto a0 = hn::Zero(d), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, e0 = a0, e1 = a0;
    for (std::size_t k = 0; k < depth; ++k) {
      const auto x = hn::LoadU(d, right + 16 * k + column);
      const auto y = hn::LoadU(d, right + 16 * k + column + lanes);
      const auto a = hn::Set(d, left[4 * k]), b = hn::Set(d, left[4 * k + 1]);
      const auto c = hn::Set(d, left[4 * k + 2]), e = hn::Set(d, left[4 * k + 3]);
      a0 = hn::MulAdd(a, x, a0), a1 = hn::MulAdd(a, y, a1);
      b0 = hn::MulAdd(b, x, b0), b1 = hn::MulAdd(b, y, b1);
      c0 = hn::MulAdd(c, x, c0), c1 = hn::MulAdd(c, y, c1);
      e0 = hn::MulAdd(e, x, e0), e1 = hn::MulAdd(e, y, e1);
    }
    const auto sum = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(b0, b1)),
                             hn::Add(hn::Add(c0, c1), hn::Add(e0, e1)));
    total += hn::GetLane(hn::SumOfLanes(d, sum));
  }
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::schedule
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::schedule {

HWY_EXPORT(product);

namespace {

// The matrices take 20 KiB each: together more than the nearest cache holds, less than the next.
constexpr std::size_t kMatrices = 6;
constexpr std::size_t kDepth = 256;

constexpr int kTries = 5;
constexpr double kTrySeconds = 0.01;

std::vector<float> numbers(std::size_t count, std::uint64_t seed) {
  SeededNumbers drawn(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(drawn.below(2001)) / 1000 - 1;
  return values;
}

}  // namespace

ComputeKernel::ComputeKernel(double rounds_per_second)
    : rounds_per_second_(rounds_per_second),
      left_(numbers(kMatrices * kDepth * 4, 1)),
      right_(numbers(kMatrices * kDepth * 16, 2)) {
  PACELINE_CHECK(rounds_per_second > 0 && std::isfinite(rounds_per_second),
                 "{} rounds a second are no speed", rounds_per_second);
}

ComputeKernel ComputeKernel::calibrated() {
  ComputeKernel kernel(1);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t first = kernel.rounds_;
    const double begin = thread_seconds();
    double taken = 0;
    while ((taken = thread_seconds() - begin) < kTrySeconds) {
      for (int k = 0; k < 100; ++k) kernel.round();
    }
    least = std::min(least, taken / static_cast<double>(kernel.rounds_ - first));
  }
  return ComputeKernel(1 / least);
}

void ComputeKernel::work(double seconds) {
  seconds_ += std::max(0.0, seconds);
  const auto due = static_cast<std::uint64_t>(seconds_ * rounds_per_second_);
  while (rounds_ < due) round();
}

void ComputeKernel::round() {
  const std::size_t matrix = rounds_++ % kMatrices;
  sum_ += static_cast<double>(HWY_DYNAMIC_DISPATCH(product)(
      left_.data() + matrix * kDepth * 4, right_.data() + matrix * kDepth * 16, kDepth));
}

}  // namespace paceline::schedule
#endif
