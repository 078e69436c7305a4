#include "paceline/core/compress/kernels/counter_random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/compress/kernels/counter_random.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "paceline/core/base/check.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::compress {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;

// The keys of the ten rounds, each widened to a lane.
struct RoundKeys {
  std::uint64_t first[10], second[10];

  explicit RoundKeys(const std::uint32_t* key) {
    std::uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; ++round, k0 += kWeyl0, k1 += kWeyl1) {
      first[round] = k0;
      second[round] = k1;
    }
  }
};

// Each lane of 64 bits holds one block: a word in the low half, and bits that no multiplication
// reads in the high half.
template <typename D>
struct Blocks {
  using V = hn::Vec<D>;
  V c0, c1, c2, c3;

#if HWY_TARGET == HWY_SCALAR  // a single lane cannot be split into two of 32 bits
  static V product(D d, V a, V multiplier) {
    return hn::Set(d, (hn::GetLane(a) & 0xFFFFFFFFu) * hn::GetLane(multiplier));
  }
  static V high_half(D, V product) {
    return hn::ShiftRight<32>(product);
  }
#else
  using Halves = hn::Repartition<std::uint32_t, D>;
  static V product(D d, V a, V multiplier) {
    return hn::BitCast(d, hn::MulEven(hn::BitCast(Halves(), a), hn::BitCast(Halves(), multiplier)));
  }
  // A wide shift would compete with multiplications for their port; a shuffle does not.
  static V high_half(D d, V product) {
    return hn::BitCast(d, hn::Shuffle2301(hn::BitCast(Halves(), product)));
  }
#endif

  HWY_INLINE void round(D d, const RoundKeys& keys, int i) {
    const V p0 = product(d, c0, hn::Set(d, kMultiplier0));
    const V p1 = product(d, c2, hn::Set(d, kMultiplier1));
    c0 = hn::Xor(high_half(d, p1), hn::Xor(c1, hn::Set(d, keys.first[i])));
    c2 = hn::Xor(high_half(d, p0), hn::Xor(c3, hn::Set(d, keys.second[i])));
    c1 = p1;
    c3 = p0;
  }
};

template <typename D>
HWY_INLINE void store_words(D d, const Blocks<D>& b, std::uint64_t* words) {
  const auto low = hn::Set(d, 0xFFFFFFFFu);
  hn::StoreInterleaved2(hn::Or(hn::And(b.c0, low), hn::ShiftLeft<32>(b.c1)),
                        hn::Or(hn::And(b.c2, low), hn::ShiftLeft<32>(b.c3)), d, words);
}

void whole_blocks(const std::uint32_t* counter, const std::uint32_t* key, std::uint32_t* words,
                  std::size_t blocks) {
  using Wide = hn::ScalableTag<std::uint64_t>;
  const Wide d;
  const std::size_t lanes = hn::Lanes(d);
  const RoundKeys keys(key);
  const auto step = hn::Set(d, lanes);
  const auto c1 = hn::Set(d, counter[1]), c2 = hn::Set(d, counter[2]), c3 = hn::Set(d, counter[3]);
  auto block = hn::Iota(d, std::uint64_t{counter[0]});
  auto* target = reinterpret_cast<std::uint64_t*>(words);
  for (; blocks >= 2 * lanes; blocks -= 2 * lanes, target += 4 * lanes) {
    // Two blocks are computed at a time, so that the multiplications of one fill the latency of the
    // other's.
    Blocks<Wide> a{block, c1, c2, c3}, b{hn::Add(block, step), c1, c2, c3};
    for (int i = 0; i < 10; ++i) {
      a.round(d, keys, i);
      b.round(d, keys, i);
    }
    store_words(d, a, target);
    store_words(d, b, target + 2 * lanes);
    block = hn::Add(block, hn::Add(step, step));
  }
  HWY_ALIGN std::uint64_t pairs[2 * HWY_MAX_BYTES / sizeof(std::uint64_t)];
  while (blocks > 0) {
    Blocks<Wide> b{block, c1, c2, c3};
    for (int i = 0; i < 10; ++i) b.round(d, keys, i);
    store_words(d, b, pairs);
    const std::size_t some = std::min(blocks, lanes);
    for (std::size_t i = 0; i < 2 * some; ++i) target[i] = pairs[i];
    blocks -= some;
    target += 2 * some;
    block = hn::Add(block, step);
  }
}

template <typename D>
void first_word_lanes(D d, const std::uint32_t* blocks, const std::uint32_t* counter,
                      const RoundKeys& keys, std::uint32_t* words) {
  const hn::Rebind<std::uint32_t, D> narrow;
  Blocks<D> b{hn::PromoteTo(d, hn::LoadU(narrow, blocks)), hn::Set(d, counter[1]),
              hn::Set(d, counter[2]), hn::Set(d, counter[3])};
  for (int i = 0; i < 10; ++i) b.round(d, keys, i);
  hn::StoreU(hn::TruncateTo(narrow, b.c0), narrow, words);
}

void first_words(const std::uint32_t* blocks, const std::uint32_t* counter,
                 const std::uint32_t* key, std::uint32_t* words, std::size_t count) {
  const hn::ScalableTag<std::uint64_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const RoundKeys keys(key);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) first_word_lanes(d, blocks + i, counter, keys, words + i);
  for (; i < count; ++i)
    first_word_lanes(hn::CappedTag<std::uint64_t, 1>(), blocks + i, counter, keys, words + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::compress {

HWY_EXPORT(whole_blocks);
HWY_EXPORT(first_words);

namespace {

using Counter = std::array<std::uint32_t, 4>;
using Key = std::array<std::uint32_t, 2>;

Counter counter_of(const RandomStream& stream, std::uint32_t block) {
  return {block, stream.tensor, stream.step,
          stream.rank | static_cast<std::uint32_t>(stream.purpose) << 24};
}

Key key_of(const RandomStream& stream) {
  return {static_cast<std::uint32_t>(stream.seed), static_cast<std::uint32_t>(stream.seed >> 32)};
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) {
  std::array<std::uint32_t, 4> words = {};
  HWY_DYNAMIC_DISPATCH(whole_blocks)(counter.data(), key.data(), words.data(), 1);
  return words;
}

void random_words(const RandomStream& stream, std::uint64_t first, std::span<std::uint32_t> words) {
  PACELINE_CHECK(first % 4 == 0 && (first + words.size()) >> 34 == 0,
                 "random words of elements {} to {}: blocks have 4 elements and numbers of 32 bits",
                 first, first + words.size());
  Counter counter = counter_of(stream, static_cast<std::uint32_t>(first / 4));
  const Key key = key_of(stream);
  const std::size_t blocks = words.size() / 4;
  HWY_DYNAMIC_DISPATCH(whole_blocks)(counter.data(), key.data(), words.data(), blocks);
  if (words.size() % 4 == 0) return;
  counter[0] += static_cast<std::uint32_t>(blocks);
  const auto last = philox(counter, key);
  std::copy_n(last.begin(), words.size() % 4,
              words.end() - static_cast<std::ptrdiff_t>(words.size() % 4));
}

void random_words_at(const RandomStream& stream, std::span<const std::uint32_t> blocks,
                     std::span<std::uint32_t> words) {
  PACELINE_CHECK(blocks.size() == words.size(), "{} random words at {} places", words.size(),
                 blocks.size());
  const Counter counter = counter_of(stream, 0);
  const Key key = key_of(stream);
  HWY_DYNAMIC_DISPATCH(first_words)
  (blocks.data(), counter.data(), key.data(), words.data(), words.size());
}

}  // namespace paceline::compress
#endif
