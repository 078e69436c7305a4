#include "paceline/core/compress/selection.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "paceline/core/base/check.h"

namespace paceline::compress {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000;

// Without its sign a value's bits are ordered as its magnitude is.
std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
}

// The least of the first `count` magnitudes, and how many that are equal to it belong to them.
struct Limit {
  std::uint32_t least;
  std::size_t equal;
};

// Digit by digit, the highest first: of the values that begin as the limit does, how many have
// which next digit. Nothing: a value is not finite.
std::optional<Limit> find_limit(std::span<const float> values, std::size_t count) {
  Limit limit{0, count};
  for (const int shift : {20, 10, 0}) {
    const int known = shift == 20 ? 31 : shift + 10;  // bits above are the limit's already
    std::array<std::size_t, 2048> found = {};
    for (const float value : values) {
      const std::uint32_t bits = magnitude_bits(value);
      if (bits >> known == limit.least >> known)
        ++found[(bits >> shift) & ((1u << (known - shift)) - 1)];
    }
    if (shift == 20) {
      for (std::size_t digit = kInfinity >> 20; digit < found.size(); ++digit)
        if (found[digit] > 0) return std::nullopt;
    }
    std::uint32_t digit = (1u << (known - shift)) - 1;
    while (found[digit] < limit.equal) limit.equal -= found[digit--];
    limit.least |= digit << shift;
  }
  return limit;
}

// Those of at least this magnitude, NaN among them.
std::vector<std::uint32_t> at_least(std::span<const float> values, float magnitude) {
  const auto least = std::bit_cast<std::uint32_t>(magnitude);
  std::vector<std::uint32_t> indices;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (magnitude_bits(values[i]) >= least) indices.push_back(static_cast<std::uint32_t>(i));
  }
  return indices;
}

// At most `count` of the elements `indices`: the first of the order.
std::optional<std::vector<std::uint32_t>> first_of(std::span<const float> values,
                                                   std::vector<std::uint32_t> indices,
                                                   std::size_t count) {
  std::vector<float> selected(indices.size());
  std::ranges::transform(indices, selected.begin(), [&](std::uint32_t i) { return values[i]; });
  std::vector<std::uint32_t> places(std::min(count, indices.size()));
  if (!select_largest(selected, places)) return std::nullopt;
  for (std::uint32_t& place : places) place = indices[place];
  return places;
}

}  // namespace

std::size_t count_of(double ratio, std::size_t elements) {
  PACELINE_CHECK(0 < ratio && ratio <= 1, "a ratio of {}: it must be in (0, 1]", ratio);
  const double count = std::ceil(ratio * static_cast<double>(elements) - 1e-6);
  return std::min(elements, static_cast<std::size_t>(std::max(count, 1.0)));
}

bool select_largest(std::span<const float> values, std::span<std::uint32_t> indices) {
  PACELINE_CHECK(indices.size() <= values.size() && values.size() >> 32 == 0,
                 "{} of {} elements are selected", indices.size(), values.size());
  if (values.empty()) return true;
  auto limit = find_limit(values, std::max<std::size_t>(indices.size(), 1));
  if (!limit) return false;
  std::size_t selected = 0;
  for (std::size_t i = 0; selected < indices.size(); ++i) {
    const std::uint32_t bits = magnitude_bits(values[i]);
    if (bits < limit->least || (bits == limit->least && limit->equal == 0)) continue;
    limit->equal -= bits == limit->least;
    indices[selected++] = static_cast<std::uint32_t>(i);
  }
  return true;
}

std::optional<std::vector<std::uint32_t>> select_by_sample(std::span<const float> values,
                                                           std::size_t count,
                                                           const RandomStream& stream) {
  PACELINE_CHECK(count <= values.size() && values.size() >> 32 == 0,
                 "{} of {} elements are selected", count, values.size());
  constexpr std::size_t kStride = 100;
  constexpr int kLowerings = 10;
  std::array<std::uint32_t, 1> word;
  random_words(stream, 0, word);
  std::vector<float> sample;
  for (std::size_t i = word[0] % kStride; i < values.size(); i += kStride)
    sample.push_back(values[i]);
  std::vector<std::uint32_t> indices;
  if (!sample.empty() && count > 0) {
    const std::size_t of_sample = (count * sample.size() + values.size() - 1) / values.size();
    const auto limit = find_limit(sample, of_sample);
    if (!limit) return std::nullopt;
    auto threshold = std::bit_cast<float>(limit->least);
    for (int i = 0; i <= kLowerings; ++i, threshold *= 0.8f) {
      indices = at_least(values, threshold);
      if (static_cast<double>(indices.size()) < 0.8 * static_cast<double>(count)) continue;
      return first_of(values, std::move(indices), count);
    }
  }
  indices.resize(count);
  if (!select_largest(values, indices)) return std::nullopt;
  return indices;
}

}  // namespace paceline::compress
