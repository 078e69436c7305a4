#include "paceline/core/compress/selection.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/compress/selection.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "paceline/core/base/check.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::compress {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Writes first + i for each value i whose bits without the sign are at least `least`, and returns
// how many there are. `indices` has room for all, and one vector more.
std::size_t collect(const float* values, std::size_t count, std::int32_t least, std::uint32_t first,
                    std::uint32_t* indices) {
  const hn::ScalableTag<std::int32_t> d;
  const hn::RebindToUnsigned<decltype(d)> u;
  const std::size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(d, 0x7fffffff), limit = hn::Set(d, least);
  std::size_t found = 0, i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::LoadU(d, reinterpret_cast<const std::int32_t*>(values + i));
    const auto is_large = hn::Not(hn::Lt(hn::And(bits, magnitude), limit));
    if (hn::AllFalse(d, is_large)) continue;
    const auto numbers = hn::Iota(u, first + static_cast<std::uint32_t>(i));
    found += hn::CompressStore(numbers, hn::RebindMask(u, is_large), u, indices + found);
  }
  for (; i < count; ++i) {
    if ((std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff) >= least)
      indices[found++] = first + static_cast<std::uint32_t>(i);
  }
  return found;
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::compress {

HWY_EXPORT(collect);

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

// Those of at least this magnitude, NaN among them; at most `most` and a block more.
std::vector<std::uint32_t> at_least(std::span<const float> values, std::uint32_t least,
                                    std::size_t most) {
  constexpr std::size_t kBlock = 4096, kVector = 64;
  std::array<std::uint32_t, kBlock + kVector> some;
  std::vector<std::uint32_t> indices;
  for (std::size_t at = 0; at < values.size() && indices.size() <= most; at += kBlock) {
    const auto block = values.subspan(at, std::min(kBlock, values.size() - at));
    const std::size_t found =
        HWY_DYNAMIC_DISPATCH(collect)(block.data(), block.size(), static_cast<std::int32_t>(least),
                                      static_cast<std::uint32_t>(at), some.data());
    indices.insert(indices.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(found));
  }
  return indices;
}

// The first indices.size() of the order; False: a value is not finite.
bool select_exactly(std::span<const float> values, std::span<std::uint32_t> indices) {
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

// The same, among the elements `candidates` alone.
bool select_among(std::span<const float> values, std::span<const std::uint32_t> candidates,
                  std::span<std::uint32_t> indices) {
  std::vector<float> selected(candidates.size());
  std::ranges::transform(candidates, selected.begin(), [&](std::uint32_t i) { return values[i]; });
  if (!select_exactly(selected, indices)) return false;
  for (std::uint32_t& index : indices) index = candidates[index];
  return true;
}

// A magnitude that half as many again as `count` values are likely to have: that of some values in
// each page. Infinity where the sample holds it, or NaN.
std::uint32_t guess(std::span<const float> values, std::size_t count) {
  constexpr std::size_t kPage = 4096, kTaken = 16;
  std::vector<float> sample;
  for (std::size_t at = 0; at + kTaken <= values.size(); at += kPage)
    sample.insert(sample.end(), &values[at], &values[at] + kTaken);
  const std::size_t rank = count * sample.size() / values.size() * 3 / 2 + kTaken;
  const auto limit = find_limit(sample, std::min(rank, sample.size()));
  return limit ? limit->least : kInfinity;
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
  // Of a long tensor most values are seen once, by a comparison with a guess. It is right if enough
  // are found, and of use if not too many are.
  constexpr std::size_t kLong = 1 << 16;
  if (values.size() >= kLong && indices.size() < values.size() / 8) {
    const std::size_t most = values.size() / 4;
    const auto candidates = at_least(values, guess(values, indices.size()), most);
    if (indices.size() <= candidates.size() && candidates.size() <= most)
      return select_among(values, candidates, indices);
  }
  return select_exactly(values, indices);
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
  std::vector<std::uint32_t> indices(count);
  if (!sample.empty() && count > 0) {
    const std::size_t of_sample = (count * sample.size() + values.size() - 1) / values.size();
    const auto limit = find_limit(sample, of_sample);
    if (!limit) return std::nullopt;
    auto threshold = std::bit_cast<float>(limit->least);
    const std::size_t most = std::max(count, values.size() / 4);
    for (int i = 0; i <= kLowerings; ++i, threshold *= 0.8f) {
      const auto found = at_least(values, std::bit_cast<std::uint32_t>(threshold), most);
      if (found.size() > most) break;  // enough for sure, and all are looked at faster
      if (static_cast<double>(found.size()) < 0.8 * static_cast<double>(count)) continue;
      indices.resize(std::min(count, found.size()));
      if (!select_among(values, found, indices)) return std::nullopt;
      return indices;
    }
  }
  if (!select_exactly(values, indices)) return std::nullopt;
  return indices;
}

}  // namespace paceline::compress
#endif
