// The conversions against the obvious reference: every one of the 65,536 halves, and floats around
// every rounding limit.
#include "paceline/core/base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/base/seed.h"
#include "tests/support/every_target.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

struct Format {
  Dtype dtype;
  int exponent_bits, digits;  // digits of the mantissa
};
constexpr Format kFormats[] = {{Dtype::f16, 5, 10}, {Dtype::bf16, 8, 7}};

// The value of the bits, by the definition of IEEE 754.
double meaning(const Format& f, std::uint32_t bits) {
  const int bias = (1 << (f.exponent_bits - 1)) - 1, top = (1 << f.exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> f.digits) & top;
  const double mantissa = bits & ((1u << f.digits) - 1), one = 1 << f.digits;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == top) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa / one, 1 - bias);
  return sign * std::ldexp(1 + mantissa / one, exponent - bias);
}

std::vector<std::uint16_t> all_halves() {
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  return all;
}

std::vector<float> widened(Dtype dtype, const std::vector<std::uint16_t>& halves) {
  std::vector<float> floats(halves.size());
  widen(dtype, std::as_bytes(std::span(halves)), floats);
  return floats;
}

std::vector<std::uint16_t> narrowed(Dtype dtype, const std::vector<float>& floats) {
  std::vector<std::uint16_t> halves(floats.size());
  narrow(dtype, floats, std::as_writable_bytes(std::span(halves)));
  return halves;
}

TEST(Half, WidensEveryValueExactly) {
  for (const Format& f : kFormats) {
    const auto floats = widened(f.dtype, all_halves());
    for (std::uint32_t bits = 0; bits < floats.size(); ++bits) {
      const double wanted = meaning(f, bits);
      EXPECT_TRUE(std::isnan(wanted) ? std::isnan(floats[bits]) : floats[bits] == wanted) << bits;
      EXPECT_EQ(std::signbit(floats[bits]), bits >> 15 == 1) << bits;
    }
  }
}

TEST(Half, ThereAndBackIsTheSameButQuiet) {
  for (const Format& f : kFormats) {
    const auto back = narrowed(f.dtype, widened(f.dtype, all_halves()));
    const std::uint32_t quiet = 1u << (f.digits - 1);
    for (std::uint32_t bits = 0; bits < back.size(); ++bits) {
      EXPECT_EQ(back[bits], std::isnan(meaning(f, bits)) ? bits | quiet : bits) << name_of(f.dtype);
    }
  }
}

// Every limit between two neighbours, and the floats on its two sides.
TEST(Half, RoundsToTheNearestAndTiesToEven) {
  for (const Format& f : kFormats) {
    const std::uint32_t infinity = ((1u << f.exponent_bits) - 1) << f.digits;
    for (std::uint32_t bits = 0; bits < infinity; ++bits) {
      const double next =
          bits + 1 == infinity ? std::ldexp(1.0, 1 << (f.exponent_bits - 1)) : meaning(f, bits + 1);
      const double limit = (meaning(f, bits) + next) / 2;
      const auto middle = static_cast<float>(limit);
      ASSERT_EQ(static_cast<double>(middle), limit) << "f32 holds every limit";
      const std::vector<float> floats = {
          std::nextafter(middle, 0.0F),  middle,  std::nextafter(middle, INFINITY),
          -std::nextafter(middle, 0.0F), -middle, -std::nextafter(middle, INFINITY)};
      const auto even = static_cast<std::uint16_t>(bits % 2 == 0 ? bits : bits + 1);
      const auto low = static_cast<std::uint16_t>(bits),
                 high = static_cast<std::uint16_t>(bits + 1), sign = std::uint16_t{0x8000};
      const std::vector<std::uint16_t> wanted = {low,
                                                 even,
                                                 high,
                                                 static_cast<std::uint16_t>(low | sign),
                                                 static_cast<std::uint16_t>(even | sign),
                                                 static_cast<std::uint16_t>(high | sign)};
      ASSERT_EQ(narrowed(f.dtype, floats), wanted) << name_of(f.dtype) << " above " << bits;
    }
    EXPECT_EQ(narrowed(f.dtype, {INFINITY, -INFINITY, std::numeric_limits<float>::max()}),
              (std::vector<std::uint16_t>{static_cast<std::uint16_t>(infinity),
                                          static_cast<std::uint16_t>(infinity | 0x8000),
                                          static_cast<std::uint16_t>(infinity)}));
  }
}

TEST(Half, EveryInstructionSetGivesTheSameBits) {
  SeededNumbers numbers(test::seed(1));
  std::vector<float> floats(5003);
  for (float& f : floats) f = std::bit_cast<float>(static_cast<std::uint32_t>(numbers.next()));
  for (const Format& f : kFormats) {
    const auto wanted_halves = narrowed(f.dtype, floats);
    const auto wanted_floats = widened(f.dtype, all_halves());
    test::for_each_target([&] {
      EXPECT_EQ(narrowed(f.dtype, floats), wanted_halves);
      const auto got = widened(f.dtype, all_halves());
      EXPECT_EQ(std::memcmp(got.data(), wanted_floats.data(), got.size() * sizeof(float)), 0);
    });
  }
}

TEST(Half, KnowsWhetherAllAreFinite) {
  for (const Format& f : kFormats) {
    test::for_each_target([&] {
      for (std::size_t bad = 0; bad < 100; ++bad) {
        std::vector<std::uint16_t> halves(100, 0xbc00);
        EXPECT_TRUE(all_finite(f.dtype, std::as_bytes(std::span(halves))));
        const auto infinity = static_cast<std::uint16_t>(0x7fff << f.digits & 0x7fff);
        halves[bad] = static_cast<std::uint16_t>(infinity | (bad % 2) << 15 | bad % 3);
        EXPECT_FALSE(all_finite(f.dtype, std::as_bytes(std::span(halves)))) << bad;
        halves[bad] = static_cast<std::uint16_t>(infinity - 1);  // the largest finite one
        EXPECT_TRUE(all_finite(f.dtype, std::as_bytes(std::span(halves)))) << bad;
      }
    });
  }
}

TEST(Half, RefusesOtherTypesAndLengths) {
  std::vector<float> floats(4);
  std::vector<std::uint16_t> halves(4);
  const auto bytes = std::as_writable_bytes(std::span(halves));
  EXPECT_THROW(widen(Dtype::f32, bytes, floats), Error);
  EXPECT_THROW(widen(Dtype::f16, bytes.first(6), floats), Error);
  EXPECT_THROW(narrow(Dtype::i16, floats, bytes), Error);
  EXPECT_THROW(narrow(Dtype::bf16, floats, bytes.first(6)), Error);
}

TEST(Half, NarrowsIntoTheMemoryThatItReads) {
  test::for_each_target([] {
    for (const Format& f : kFormats) {
      for (const std::size_t count : {1u, 15u, 16u, 17u, 1000u}) {
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * i % 60000) / 7;
        const std::vector<std::uint16_t> apart = narrowed(f.dtype, values);
        narrow(f.dtype, values, std::as_writable_bytes(std::span(values)).first(2 * count));
        EXPECT_EQ(std::memcmp(values.data(), apart.data(), 2 * count), 0) << count;
      }
    }
  });
}

}  // namespace
}  // namespace paceline
