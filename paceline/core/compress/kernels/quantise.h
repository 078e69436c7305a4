// Values as integers: the basis of qsgd, int8, terngrad and sums under a shared scale
// (docs/compression/fp16.md). It is vectorised with run-time dispatch (Highway), with the same bits
// on every processor.
//
// Values are cut into buckets, each with a norm. A bucket's step is norm / top in f32, and a value
// becomes one of the levels -top .. top: |value| / step rounded up or down at random, so that the
// expectation of level * step is the value. A bucket whose step is 0 has level 0 everywhere.
//
// Under a shared scale the ranks agree on the largest norm of each bucket, then add up levels as
// integers, which is exact in any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "paceline/core/compress/kernels/counter_random.h"

namespace paceline::compress {

enum class Norm : std::uint8_t { l2, max };

// The number of buckets of `length` elements; the last one may be shorter.
constexpr std::size_t buckets_of(std::size_t elements, std::size_t length) {
  return elements / length + (elements % length != 0);
}

// Computes the norm of each bucket, l2 in f64. Returns false if a norm is not finite, because a
// value is not or because it overflows. REQUIRES: norms.size() == buckets_of(values.size(),
// length).
bool bucket_norms(std::span<const float> values, std::size_t length, Norm norm,
                  std::span<float> norms);

// The scale of a tensor's levels. Element i belongs to bucket i / length.
struct Scale {
  std::span<const float> norms;  // one for each bucket; finite, not negative
  std::size_t length = 512;      // of a bucket
  int top = 127;                 // the highest level

  float step(std::size_t bucket) const { return norms[bucket] / static_cast<float>(top); }
};

// The highest level that each rank may use if the ranks add up levels in integers of type Level
// (std::int8_t or std::int16_t). 0: the sum does not fit.
template <typename Level>
constexpr int top_of_sum(int ranks) {
  return std::numeric_limits<Level>::max() / ranks;
}

// Turns elements first, first + 1, ... of the tensor into levels. A value beyond its bucket's norm
// has the level `top`. REQUIRES: finite values; first % 4 == 0; 0 < top <= the largest Level; as
// many levels as values.
void quantise(std::span<const float> values, std::size_t first, const Scale& scale,
              const RandomStream& stream, std::span<std::int8_t> levels);
void quantise(std::span<const float> values, std::size_t first, const Scale& scale,
              const RandomStream& stream, std::span<std::int16_t> levels);

// values[i] = levels[i] * step, rounded once.
void dequantise(std::span<const std::int8_t> levels, std::size_t first, const Scale& scale,
                std::span<float> values);
void dequantise(std::span<const std::int16_t> levels, std::size_t first, const Scale& scale,
                std::span<float> values);

// values[i] = sums[i] * step / ranks in f64, then rounded to f32: the mean of the ranks'
// dequantised values, where sums[i] is the sum of their levels.
void mean_of_sums(std::span<const std::int8_t> sums, std::size_t first, const Scale& scale,
                  int ranks, std::span<float> values);
void mean_of_sums(std::span<const std::int16_t> sums, std::size_t first, const Scale& scale,
                  int ranks, std::span<float> values);

}  // namespace paceline::compress
