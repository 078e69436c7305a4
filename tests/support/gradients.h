// Gradients for tests of codecs: values of both signs over eleven powers of two, exact in f32. The
// independent model in Python from which the expected bytes come draws the same values (there:
// int32(word) >> 8, times 2^-(23 + word % 256 % 11)).
#pragma once

#include <cmath>
#include <vector>

#include "paceline/core/base/crc32c.h"
#include "paceline/core/compress/kernels/counter_random.h"
#include "paceline/core/compress/payload/codec.h"

namespace paceline::test {

inline std::vector<float> gradient(std::size_t elements, std::uint64_t seed) {
  std::vector<std::uint32_t> words(elements);
  compress::random_words({.seed = seed}, 0, words);
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const int exponent = static_cast<int>((words[i] & 255) % 11);
    values[i] =
        std::ldexp(static_cast<float>(static_cast<std::int32_t>(words[i]) >> 8), -23 - exponent);
  }
  return values;
}

// Empty if the codec reports an overflow.
inline std::vector<std::byte> encoded(const compress::Codec& codec,
                                      const std::vector<float>& values,
                                      const compress::EncodeContext& occasion = {}) {
  std::vector<std::byte> payload(codec.longest_payload(values.size()));
  payload.resize(codec.encode(values, occasion, payload).value_or(0));
  return payload;
}

inline std::vector<float> decoded(const compress::Codec& codec, Bytes payload,
                                  std::size_t elements) {
  std::vector<float> values(elements, NAN);
  const auto done = codec.decode(payload, values);
  if (!done) throw Error(done.error());
  return values;
}

inline std::vector<float> there_and_back(const compress::Codec& codec,
                                         const std::vector<float>& values,
                                         const compress::EncodeContext& occasion = {}) {
  return decoded(codec, encoded(codec, values, occasion), values.size());
}

template <typename T>
std::uint32_t checksum(const std::vector<T>& values, std::uint32_t before = 0) {
  return crc32c(std::as_bytes(std::span(values)), before);
}

inline double squares(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

inline double squared_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return sum;
}

}  // namespace paceline::test
