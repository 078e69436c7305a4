#include "paceline/core/compress/codecs/qsgd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/kernels/long_output.h"
#include "paceline/core/compress/kernels/norms.h"

namespace paceline::compress {
namespace {

// Elements are encoded in blocks of this size: they stay in a near cache between norm and levels,
// and each block's levels begin on a byte.
constexpr std::size_t kLevelBlock = 4096;

class Qsgd final : public Codec {
 public:
  explicit Qsgd(const QsgdSettings& settings)
      : bits_(settings.bits),
        bucket_(settings.bucket),
        norm_(settings.norm),
        clip_(settings.clip) {}

  PayloadFormat format() const override { return PayloadFormat::levels; }

  std::size_t longest_payload(std::size_t elements) const override {
    return norm_bytes(elements) + level_bytes(elements, bits_);
  }

  std::optional<std::size_t> encode(std::span<const float> values, const EncodeContext& occasion,
                                    MutableBytes payload) const override {
    const std::size_t elements = values.size(), bytes = longest_payload(elements);
    require_room(payload, bytes);
    if (elements == 0) return 0;
    const RandomStream stream{occasion.seed, occasion.tensor, occasion.step, occasion.rank};
    std::vector<float> norms(buckets_of(elements, bucket_));
    const Scale scale = scale_of(norms);
    std::array<std::int8_t, kLevelBlock> levels;
    std::size_t known = 0;  // buckets whose norm is known
    for (std::size_t at = 0; at < elements; at += kLevelBlock) {
      const std::size_t end = std::min(at + kLevelBlock, elements);
      const std::size_t wanted = buckets_of(end, bucket_);
      if (!find_norms(values, known, std::span(norms).first(wanted))) return std::nullopt;
      known = wanted;
      const auto block = std::span(levels).first(end - at);
      quantise(values.subspan(at, end - at), at, scale, stream, block);
      pack_levels(block, bits_, block_of(payload, elements, at, end));
    }
    std::memcpy(payload.data(), norms.data(), norm_bytes(elements));
    return bytes;
  }

  Result<> decode(Bytes payload, std::span<float> values) const override {
    const std::size_t elements = values.size();
    if (auto length = expect_bytes(payload, longest_payload(elements), elements); !length)
      return length;
    if (elements == 0) return Done{};
    std::vector<float> norms(buckets_of(elements, bucket_));
    std::memcpy(norms.data(), payload.data(), norm_bytes(elements));
    for (const float norm : norms) {
      if (std::signbit(norm) || !is_usable(norm))
        return malformed_payload(fmt::format("the norm of a bucket is {}", norm));
    }
    std::array<std::int8_t, kLevelBlock> levels;
    const bool done = decode_in_blocks(values, [&](std::size_t at, std::span<float> block) {
      const auto some = std::span(levels).first(block.size());
      const Bytes packed = block_of(payload, elements, at, at + block.size());
      if (!unpack_levels(packed, bits_, some)) return false;
      dequantise(some, at, scale_of(norms), block);
      return true;
    });
    if (!done)
      return malformed_payload(fmt::format("a level is beyond {}, or bits follow the last", top()));
    return Done{};
  }

 private:
  int top() const { return (1 << (bits_ - 1)) - 1; }
  Scale scale_of(std::span<const float> norms) const { return {norms, bucket_, top()}; }
  std::size_t norm_bytes(std::size_t elements) const { return 4 * buckets_of(elements, bucket_); }

  // The part of the payload that holds the levels of elements `at` to `end`.
  template <typename Span>
  Span block_of(Span payload, std::size_t elements, std::size_t at, std::size_t end) const {
    return payload.subspan(norm_bytes(elements) + level_bytes(at, bits_),
                           level_bytes(end - at, bits_));
  }

  // The highest level, times its step, must be finite.
  bool is_usable(float norm) const {
    const auto highest = static_cast<float>(top());
    return std::isfinite(norm / highest * highest);
  }

  // Computes the norms from number `known` on.
  bool find_norms(std::span<const float> values, std::size_t known, std::span<float> norms) const {
    const auto unknown = norms.subspan(known);
    if (unknown.empty()) return true;
    const std::size_t begin = known * bucket_, last = (norms.size() - 1) * bucket_;
    const std::size_t end = last + std::min(bucket_, values.size() - last);
    const auto some = values.subspan(begin, end - begin);
    if (!bucket_norms(some, bucket_, norm_, unknown)) return false;
    if (clip_ > 0) cut(some, unknown);
    return std::ranges::all_of(unknown, [&](float norm) { return is_usable(norm); });
  }

  void cut(std::span<const float> values, std::span<float> norms) const {
    for (std::size_t i = 0; i < norms.size(); ++i) {
      const std::size_t begin = i * bucket_;
      const auto some = values.subspan(begin, std::min(bucket_, values.size() - begin));
      const double mean_square = sum_of_squares(some) / static_cast<double>(some.size());
      norms[i] = std::min(norms[i], static_cast<float>(clip_ * std::sqrt(mean_square)));
    }
  }

  int bits_;
  std::size_t bucket_;
  Norm norm_;
  double clip_;
};

// Eight levels are the bytes of a word, and their bits become its lowest 8 * bits bits: each step
// moves the upper half of every 16, 32 and 64 bits down to the lower half, or back.
struct Steps {
  std::uint64_t lower[3];
  int shift[3];

  explicit Steps(int bits) {
    for (int i = 0; i < 3; ++i) {
      const int width = 8 << i, used = bits << i;
      const std::uint64_t one = (std::uint64_t{1} << used) - 1;
      lower[i] = 0;
      for (int at = 0; at < 64; at += 2 * width) lower[i] |= one << at;
      shift[i] = width - used;
    }
  }

  std::uint64_t packed(std::uint64_t word) const {
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t upper = lower[i] << (8 << i);
      word = (word & lower[i]) | (word & upper) >> shift[i];
    }
    return word;
  }

  std::uint64_t spread(std::uint64_t word) const {
    for (int i = 2; i >= 0; --i) {
      const std::uint64_t upper = lower[i] << (8 << i);
      word = (word & lower[i]) | (word << shift[i] & upper);
    }
    return word;
  }
};

constexpr std::uint64_t kOnes = 0x0101010101010101;

// Extends the sign of each byte's `bits` bits to the whole byte.
std::uint64_t with_signs(std::uint64_t word, int bits) {
  const std::uint64_t sign = kOnes << (bits - 1);
  const std::uint64_t above = (word & sign) >> (bits - 1);  // 1 in every negative byte
  return word | above * (0x100u - (1u << bits));
}

// Loads the bytes from `at` on, and 0 beyond the last.
std::uint64_t load_word(Bytes bytes, std::size_t at) {
  std::uint64_t word = 0;
  if (bytes.size() - at >= sizeof word) std::memcpy(&word, bytes.data() + at, sizeof word);
  else std::memcpy(&word, bytes.data() + at, bytes.size() - at);
  return word;
}

void store_word(std::uint64_t word, std::size_t count, std::byte* target) {
  if (count == sizeof word) std::memcpy(target, &word, sizeof word);
  else std::memcpy(target, &word, count);
}

void require(std::size_t count, int bits, std::size_t bytes) {
  PACELINE_CHECK(2 <= bits && bits <= 8 && bytes == level_bytes(count, bits),
                 "{} levels of {} bits in {} bytes", count, bits, bytes);
}

// Tells whether no level is the one without an opposite.
bool are_levels(std::span<const std::int8_t> levels) {
  std::int8_t least = 0;
  for (const std::int8_t level : levels) least = std::min(least, level);
  return least > std::numeric_limits<std::int8_t>::min();
}

}  // namespace

std::unique_ptr<Codec> qsgd_codec(const QsgdSettings& settings) {
  PACELINE_CHECK(2 <= settings.bits && settings.bits <= 8 && settings.bucket > 0,
                 "qsgd of {} bits in buckets of {}: 2 to 8 bits, and buckets of 1 element or more",
                 settings.bits, settings.bucket);
  return std::make_unique<Qsgd>(settings);
}

std::unique_ptr<Codec> int8_codec(std::size_t bucket) {
  return qsgd_codec({.bits = 8, .bucket = bucket, .norm = Norm::max});
}

std::unique_ptr<Codec> terngrad_codec(double clip) {
  return qsgd_codec({.bits = 2,
                     .bucket = std::numeric_limits<std::size_t>::max(),
                     .norm = Norm::max,
                     .clip = clip});
}

void pack_levels(std::span<const std::int8_t> levels, int bits, MutableBytes packed) {
  require(levels.size(), bits, packed.size());
  if (packed.empty()) return;
  if (bits == 8) {
    std::memcpy(packed.data(), levels.data(), levels.size());
    return;
  }
  const Steps steps(bits);
  const auto width = static_cast<std::size_t>(bits);
  for (std::size_t i = 0, at = 0; i < levels.size(); i += 8, at += width) {
    const std::uint64_t word = steps.packed(load_word(std::as_bytes(levels), i));
    // If there is room, all 8 bytes are stored: the next word overwrites the surplus.
    store_word(word, packed.size() - at >= 8 ? 8 : std::min(width, packed.size() - at),
               &packed[at]);
  }
}

bool unpack_levels(Bytes packed, int bits, std::span<std::int8_t> levels) {
  require(levels.size(), bits, packed.size());
  if (packed.empty()) return true;
  if (bits == 8) {
    std::memcpy(levels.data(), packed.data(), packed.size());
    return are_levels(levels);
  }
  const Steps steps(bits);
  const auto width = static_cast<std::size_t>(bits);
  const MutableBytes bytes = std::as_writable_bytes(levels);
  const std::uint64_t lowest = kOnes << (bits - 1);  // the level without an opposite, in each byte
  const std::uint64_t used = (std::uint64_t{1} << 8 * width) - 1;
  std::uint64_t found = 0, word = 0;
  for (std::size_t i = 0, at = 0; i < levels.size(); i += 8, at += width) {
    word = steps.spread(load_word(packed, at) & used);
    const std::uint64_t other = word ^ lowest;  // a byte is 0 where the level is the lowest
    found |= (other - kOnes) & ~other & kOnes << 7;
    word = with_signs(word, bits);
    store_word(word, std::min<std::size_t>(8, levels.size() - i), &bytes[i]);
  }
  const std::size_t rest = levels.size() % 8;
  const bool clean = rest == 0 || word >> 8 * rest == 0;
  return found == 0 && clean;
}

}  // namespace paceline::compress
