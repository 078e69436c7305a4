#include "paceline/core/compress/kernels/sign_bits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/compress/kernels/sign_bits.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/kernels/norms.h"

HWY_BEFORE_NAMESPACE();
namespace paceline::compress {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// REQUIRES: count is a multiple of 16.
void pack_all(const float* values, std::byte* bits, std::size_t count) {
  const hn::CappedTag<float, 16> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < count; i += 16) {
    std::uint32_t word = 0;
    for (std::size_t j = 0; j < 16; j += lanes) {
      std::uint8_t some[8] = {};
      hn::StoreMaskBits(d, hn::Ge(hn::LoadU(d, values + i + j), hn::Zero(d)), some);
      std::uint16_t low;
      std::memcpy(&low, some, sizeof low);
      word |= static_cast<std::uint32_t>(low) << j;
    }
    std::memcpy(bits + i / 8, &word, sizeof(std::uint16_t));
  }
}

// Bit i of the word is the sign of value i.
template <typename D>
HWY_INLINE void unpack_lanes(D d, std::uint32_t word, std::uint32_t magnitude, float* values) {
  const hn::RebindToUnsigned<D> u;
  const auto bit = hn::Shl(hn::Set(u, 1), hn::Iota(u, 0));
  const auto is_set = hn::TestBit(hn::Set(u, word), bit);
  const auto value =
      hn::IfThenElse(is_set, hn::Set(u, magnitude), hn::Set(u, magnitude ^ 0x80000000u));
  hn::StoreU(hn::BitCast(d, value), d, values);
}

void unpack_all(const std::byte* bits, float magnitude, float* values, std::size_t count) {
  const hn::CappedTag<float, 32> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto pattern = std::bit_cast<std::uint32_t>(magnitude);
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    std::uint32_t word;
    std::memcpy(&word, bits + i / 8, sizeof word);
    for (std::size_t j = 0; j < 32; j += lanes) unpack_lanes(d, word >> j, pattern, values + i + j);
  }
  for (; i < count; ++i) {
    const auto word = static_cast<std::uint32_t>(bits[i / 8]) >> i % 8;
    unpack_lanes(hn::CappedTag<float, 1>(), word, pattern, values + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::compress {

HWY_EXPORT(pack_all);
HWY_EXPORT(unpack_all);

namespace {

void require(std::size_t bytes, std::size_t elements) {
  PACELINE_CHECK(bytes == sign_bytes(elements), "signs of {} elements in {} bytes", elements,
                 bytes);
}

}  // namespace

double pack_signs(std::span<const float> values, MutableBytes bits) {
  require(bits.size(), values.size());
  constexpr std::size_t kBlock = 4096;  // packed while it is in the nearest cache
  double sum = 0;
  for (std::size_t at = 0; at < values.size(); at += kBlock) {
    const auto block = values.subspan(at, std::min(kBlock, values.size() - at));
    sum += sum_of_magnitudes(block);
    const std::size_t whole = block.size() / 16 * 16;
    std::byte* const target = bits.data() + at / 8;
    HWY_DYNAMIC_DISPATCH(pack_all)(block.data(), target, whole);
    std::uint32_t rest = 0;
    for (std::size_t i = whole; i < block.size(); ++i)
      rest |= static_cast<std::uint32_t>(block[i] >= 0) << (i - whole);
    std::memcpy(target + whole / 8, &rest, sign_bytes(block.size() - whole));
  }
  return sum;
}

void unpack_signs(Bytes bits, float magnitude, std::span<float> values) {
  require(bits.size(), values.size());
  HWY_DYNAMIC_DISPATCH(unpack_all)(bits.data(), magnitude, values.data(), values.size());
}

bool are_signs(Bytes bits, std::size_t elements) {
  require(bits.size(), elements);
  return elements % 8 == 0 || static_cast<unsigned>(bits.back()) >> elements % 8 == 0;
}

void majority_vote(std::span<const Bytes> voters, MutableBytes verdict) {
  PACELINE_CHECK(!voters.empty(), "a vote without voters");
  for (const Bytes voter : voters) {
    PACELINE_CHECK(voter.size() == verdict.size(), "{} bytes of a voter to {} of the verdict",
                   voter.size(), verdict.size());
  }
  // Each bit of a block has a counter; plane i holds digit i of all counters. They start at a value
  // from which half of the voters make them overflow.
  constexpr std::size_t kWords = 64;
  using Plane = std::array<std::uint64_t, kWords>;
  const std::uint64_t half = (voters.size() + 1) / 2;
  const auto digits = static_cast<std::size_t>(std::bit_width(voters.size()));
  const std::uint64_t begin = (std::uint64_t{1} << digits) - half;
  std::vector<Plane> planes(digits + 1);
  for (std::size_t at = 0; at < verdict.size(); at += sizeof(Plane)) {
    const std::size_t bytes = std::min(sizeof(Plane), verdict.size() - at);
    for (std::size_t i = 0; i <= digits; ++i)
      planes[i].fill(begin >> i & 1 ? ~std::uint64_t{0} : 0);
    for (const Bytes voter : voters) {
      Plane carry = {};
      std::memcpy(carry.data(), voter.data() + at, bytes);
      for (Plane& plane : planes) {
        for (std::size_t i = 0; i < kWords; ++i) {
          const std::uint64_t both = plane[i] & carry[i];
          plane[i] ^= carry[i];
          carry[i] = both;
        }
      }
    }
    std::memcpy(verdict.data() + at, planes.back().data(), bytes);
  }
}

}  // namespace paceline::compress
#endif
