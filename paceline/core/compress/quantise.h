// Values as integers: what qsgd, int8, terngrad and sums under a shared scale are made of
// (docs/compression/fp16.md). Vectorised with run-time dispatch (Highway), with the same bits on
// every processor.
//
// Values are cut into buckets, each with a norm. A bucket's step is norm / top in f32, and a value
// becomes one of the levels -top .. top: |value| / step rounded up or down at random, so that the
// expectation of level * step is the value. A bucket whose step is 0 has level 0 everywhere.
//
// Under a shared scale the ranks agree on the largest norm of each bucket, then add up levels as
// integers: exactly, in whatever order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "paceline/core/compress/counter_random.h"

namespace paceline::compress {

enum class Norm : std::uint8_t { l2, max };

// Buckets of `length` elements; the last one may be shorter.
constexpr std::size_t buckets_of(std::size_t elements, std::size_t length) {
  return elements / length + (elements % length != 0);
}

// The norm of each bucket, computed in f64 (l2). False: a norm is not finite, because a value is
// not or because it overflows. REQUIRES: norms.size() == buckets_of(values.size(), length).
bool bucket_norms(std::span<const float> values, std::size_t length, Norm norm,
                  std::span<float> norms);

// How a tensor's values become levels. Element i is of bucket i / length.
struct Scale {
  std::span<const float> norms;  // of all buckets; finite, not negative
  std::size_t length = 512;      // of a bucket
  int top = 127;                 // the highest level

  float step(std::size_t bucket) const { return norms[bucket] / static_cast<float>(top); }
};

// The highest level that ranks may use whose levels are added up in integers of type Level
// (std::int8_t or std::int16_t). 0: so many ranks do not fit.
template <typename Level>
constexpr int top_of_sum(int ranks) {
  return std::numeric_limits<Level>::max() / ranks;
}

// Elements first, first + 1, ... of the tensor as levels. A value beyond its bucket's norm has the
// level `top`. REQUIRES: finite values; first % 4 == 0; 0 < top <= the largest Level; as many
// levels as values.
void quantise(std::span<const float> values, std::size_t first, const Scale& scale,
              const RandomStream& stream, std::span<std::int8_t> levels);
void quantise(std::span<const float> values, std::size_t first, const Scale& scale,
              const RandomStream& stream, std::span<std::int16_t> levels);

// values[i] = levels[i] * step, rounded once.
void dequantise(std::span<const std::int8_t> levels, std::size_t first, const Scale& scale,
                std::span<float> values);
void dequantise(std::span<const std::int16_t> levels, std::size_t first, const Scale& scale,
                std::span<float> values);

// values[i] = sums[i] * step / ranks in f64, then rounded to f32: the mean of what the ranks'
// levels stand for, where sums[i] is the sum of their levels.
void mean_of_sums(std::span<const std::int8_t> sums, std::size_t first, const Scale& scale,
                  int ranks, std::span<float> values);
void mean_of_sums(std::span<const std::int16_t> sums, std::size_t first, const Scale& scale,
                  int ranks, std::span<float> values);

}  // namespace paceline::compress
