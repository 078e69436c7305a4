#include "paceline/core/compress/kernels/selection.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/compress/kernels/selection.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/kernels/long_output.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::compress {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Writes first + i for each i whose bits without the sign are at least `least`, and returns their
// number. `indices` has room for all, and one vector more. bits_of(i) gives a vector of bits,
// bit_of(i) those of one value.
template <typename BitsOf, typename BitOf>
std::size_t collect(std::size_t count, std::int32_t least, std::uint32_t first,
                    std::uint32_t* indices, BitsOf bits_of, BitOf bit_of) {
  const hn::ScalableTag<std::int32_t> d;
  const hn::RebindToUnsigned<decltype(d)> u;
  const std::size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(d, 0x7fffffff), limit = hn::Set(d, least);
  std::size_t found = 0, i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto is_large = hn::Not(hn::Lt(hn::And(bits_of(i), magnitude), limit));
    if (hn::AllFalse(d, is_large)) continue;
    const auto numbers = hn::Iota(u, first + static_cast<std::uint32_t>(i));
    found += hn::CompressStore(numbers, hn::RebindMask(u, is_large), u, indices + found);
  }
  for (; i < count; ++i) {
    if ((bit_of(i) & 0x7fffffff) >= least) indices[found++] = first + static_cast<std::uint32_t>(i);
  }
  return found;
}

std::size_t collect_values(const float* values, std::size_t count, std::int32_t least,
                           std::uint32_t first, std::uint32_t* indices) {
  const hn::ScalableTag<std::int32_t> d;
  return collect(
      count, least, first, indices,
      [&](std::size_t i) {
        return hn::LoadU(d, reinterpret_cast<const std::int32_t*>(values + i));
      },
      [&](std::size_t i) { return std::bit_cast<std::int32_t>(values[i]); });
}

// Does the same for values + more, and writes that sum into `sum`.
std::size_t collect_sum(const float* values, const float* more, float* sum, std::size_t count,
                        std::int32_t least, std::uint32_t first, std::uint32_t* indices) {
  // Memory is fetched this many bytes ahead, to hide its latency. The address may lie beyond the
  // end.
  constexpr std::size_t kAhead = 4096;
  const auto fetch = [](const float* near) {
    hwy::Prefetch(std::bit_cast<const float*>(std::bit_cast<std::uintptr_t>(near) + kAhead));
  };
  const hn::ScalableTag<float> f;
  const hn::RebindToSigned<decltype(f)> d;
  return collect(
      count, least, first, indices,
      [&](std::size_t i) {
        fetch(values + i);
        fetch(more + i);
        const auto both = hn::Add(hn::LoadU(f, values + i), hn::LoadU(f, more + i));
        hn::StoreU(both, f, sum + i);
        return hn::BitCast(d, both);
      },
      [&](std::size_t i) {
        sum[i] = values[i] + more[i];
        return std::bit_cast<std::int32_t>(sum[i]);
      });
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::compress {

HWY_EXPORT(collect_values);
HWY_EXPORT(collect_sum);

namespace {

constexpr std::uint32_t kInfinity = 0x7f800000;

// Without the sign, a value's bits are ordered as its magnitude is.
std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
}

// The least of the `count` largest magnitudes, and how many values equal to it belong to them.
struct Limit {
  std::uint32_t least;
  std::size_t equal;
};

// Finds the limit digit by digit, the highest first, by counting the next digits of the values that
// begin as the limit does. Returns nothing if a value is not finite.
std::optional<Limit> find_limit(std::span<const float> values, std::size_t count) {
  Limit limit{0, count};
  for (const int shift : {20, 10, 0}) {
    const int known = shift == 20 ? 31 : shift + 10;  // the limit's bits above this one are known
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

constexpr std::size_t kScanBlock = 4096;

// The values of at least some magnitude; NaN is one of them.
class Candidates {
 public:
  // More than `most` candidates are too many: further ones are ignored.
  Candidates(std::uint32_t least, std::size_t most) : least_(least), most_(most) {}

  // Takes elements `first` and following, at most kScanBlock.
  void take(std::span<const float> block, std::size_t first) {
    if (are_too_many()) return;
    keep(block, first,
         HWY_DYNAMIC_DISPATCH(collect_values)(block.data(), block.size(), least(), number(first),
                                              found_.data()));
  }

  // Takes values + more, and writes that sum into `block`.
  void take_sum(std::span<const float> values, std::span<const float> more, std::size_t first,
                std::span<float> block) {
    const std::size_t found =
        HWY_DYNAMIC_DISPATCH(collect_sum)(values.data(), more.data(), block.data(), block.size(),
                                          least(), number(first), found_.data());
    if (!are_too_many()) keep(block, first, found);
  }

  bool are_too_many() const { return indices_.size() > most_; }
  std::size_t size() const { return indices_.size(); }
  std::span<const std::uint32_t> indices() const { return indices_; }
  std::span<const float> values() const { return values_; }

 private:
  static constexpr std::size_t kVector = 64;

  std::int32_t least() const { return static_cast<std::int32_t>(least_); }
  static std::uint32_t number(std::size_t first) { return static_cast<std::uint32_t>(first); }

  void keep(std::span<const float> block, std::size_t first, std::size_t found) {
    for (const std::uint32_t index : std::span(found_).first(found)) {
      indices_.push_back(index);
      values_.push_back(block[index - first]);
    }
  }

  const std::uint32_t least_;
  const std::size_t most_;
  std::array<std::uint32_t, kScanBlock + kVector> found_;  // found in one block
  std::vector<std::uint32_t> indices_;
  std::vector<float> values_;
};

Candidates at_least(std::span<const float> values, std::uint32_t least, std::size_t most) {
  Candidates candidates(least, most);
  for (std::size_t at = 0; at < values.size() && !candidates.are_too_many(); at += kScanBlock)
    candidates.take(values.subspan(at, std::min(kScanBlock, values.size() - at)), at);
  return candidates;
}

// Selects the first indices.size() of the order. Returns false if a value is not finite.
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

// Selects exactly, but only among the candidates.
bool select_among(const Candidates& candidates, std::span<std::uint32_t> indices) {
  if (!select_exactly(candidates.values(), indices)) return false;
  for (std::uint32_t& index : indices) index = candidates.indices()[index];
  return true;
}

// Most values of a long tensor are read only once, to compare them with a guessed limit. The guess
// is valid if enough values reach it, and useful if not too many do.
bool may_guess(std::size_t count, std::size_t elements) {
  constexpr std::size_t kLong = 1 << 16;
  return elements >= kLong && count < elements / 8;
}
std::size_t most_of_use(std::size_t elements) {
  return elements / 4;
}
bool are_of_use(const Candidates& candidates, std::size_t count) {
  return count <= candidates.size() && !candidates.are_too_many();
}

// A magnitude that about 1.5 * count of the values (plus `more`, if given) are likely to reach,
// from a sample of some values in each page. It is infinity if the sample holds infinity or NaN.
std::uint32_t guess(std::span<const float> values, std::span<const float> more, std::size_t count) {
  constexpr std::size_t kPage = 4096, kTaken = 16;
  std::vector<float> sample;
  for (std::size_t at = 0; at + kTaken <= values.size(); at += kPage) {
    for (std::size_t i = at; i < at + kTaken; ++i)
      sample.push_back(more.empty() ? values[i] : values[i] + more[i]);
  }
  const std::size_t rank = count * sample.size() / values.size() * 3 / 2 + kTaken;
  const auto limit = find_limit(sample, std::min(rank, sample.size()));
  return limit ? limit->least : kInfinity;
}

void add(std::span<const float> values, std::span<const float> more, std::span<float> sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = values[i] + more[i];
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
  if (may_guess(indices.size(), values.size())) {
    const auto candidates =
        at_least(values, guess(values, {}, indices.size()), most_of_use(values.size()));
    if (are_of_use(candidates, indices.size())) return select_among(candidates, indices);
  }
  return select_exactly(values, indices);
}

bool select_largest_of_sum(std::span<const float> values, std::span<const float> more,
                           std::span<float> sum, std::span<std::uint32_t> indices) {
  if (sum.data() == values.data() || !may_guess(indices.size(), values.size())) {
    add(values, more, sum);
    return select_largest(sum, indices);
  }
  Candidates candidates(guess(values, more, indices.size()), most_of_use(values.size()));
  decode_in_blocks(sum, [&](std::size_t at, std::span<float> block) {
    candidates.take_sum(values.subspan(at, block.size()), more.subspan(at, block.size()), at,
                        block);
    return true;
  });
  return are_of_use(candidates, indices.size()) ? select_among(candidates, indices)
                                                : select_exactly(sum, indices);
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
      // Exact selection over all values is faster then.
      if (found.are_too_many()) break;
      if (static_cast<double>(found.size()) < 0.8 * static_cast<double>(count)) continue;
      indices.resize(std::min(count, found.size()));
      if (!select_among(found, indices)) return std::nullopt;
      return indices;
    }
  }
  if (!select_exactly(values, indices)) return std::nullopt;
  return indices;
}

}  // namespace paceline::compress
#endif
