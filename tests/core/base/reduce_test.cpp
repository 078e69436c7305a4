#include "paceline/core/base/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "paceline/core/base/half.h"
#include "paceline/core/base/result.h"
#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

constexpr std::size_t kCounts[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 1000, 1003};
constexpr ReduceOp kOps[] = {ReduceOp::sum,     ReduceOp::average, ReduceOp::min, ReduceOp::max,
                             ReduceOp::product, ReduceOp::band,    ReduceOp::bor, ReduceOp::bxor};
constexpr Dtype kDtypes[] = {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i64,
                             Dtype::i32, Dtype::i16, Dtype::i8,  Dtype::u8,   Dtype::boolean};

// Those that elements of type T can do.
template <typename T>
std::vector<ReduceOp> ops_of() {
  std::vector<ReduceOp> ops;
  for (const ReduceOp op : kOps) {
    if (can_reduce(op, dtype_of<T>())) ops.push_back(op);
  }
  return ops;
}

// --- the obvious reference ---

template <typename T>
T quiet(T nan) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(nan) | 0x400000u);
  else return std::bit_cast<double>(std::bit_cast<std::uint64_t>(nan) | 0x8000000000000u);
}

template <typename T>
T extreme(T left, T right, bool smaller) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(left)) return left;
    if (std::isnan(right)) return right;
    if (left == right) return std::signbit(left) == smaller ? left : right;  // -0 < +0
  }
  return (left < right) == smaller ? left : right;
}

template <typename T>
T combined(ReduceOp op, T left, T right) {
  if (op == ReduceOp::min || op == ReduceOp::max) return extreme(left, right, op == ReduceOp::min);
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(left)) return quiet(left);  // IEEE 754 wants a NaN of an operation quiet
    if (std::isnan(right)) return quiet(right);
    return op == ReduceOp::product ? left * right : left + right;
  } else {
    using Wrapping = std::uint64_t;
    const auto l = static_cast<Wrapping>(left), r = static_cast<Wrapping>(right);
    switch (op) {
      case ReduceOp::product: return static_cast<T>(l * r);
      case ReduceOp::band: return static_cast<T>(l & r);
      case ReduceOp::bor: return static_cast<T>(l | r);
      case ReduceOp::bxor: return static_cast<T>(l ^ r);
      default: return static_cast<T>(l + r);
    }
  }
}

// --- inputs ---

// Any bits at all, with everything that is special among them more often than chance would have it.
template <typename T>
T any_value(SeededNumbers& numbers) {
  using Limits = std::numeric_limits<T>;
  if (numbers.below(3) == 0) {
    const T special[] = {T{0}, Limits::max(), Limits::lowest(), Limits::min(), T{1}};
    return special[numbers.below(std::size(special))];
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (numbers.below(8) == 0) {  // a NaN with any payload, quiet or signalling
      using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
      const auto exponent = std::bit_cast<Bits>(Limits::infinity());
      return std::bit_cast<T>(static_cast<Bits>(exponent | static_cast<Bits>(numbers.next()) | 1));
    }
    if (numbers.below(4) == 0) {
      const T special[] = {-T{0}, Limits::infinity(), -Limits::infinity(), Limits::denorm_min(),
                           Limits::quiet_NaN()};
      return special[numbers.below(std::size(special))];
    }
    return static_cast<T>(numbers.unit() * 2000 - 1000);
  } else {
    return static_cast<T>(numbers.next());
  }
}

template <typename T>
std::vector<T> any_values(std::size_t count, SeededNumbers& numbers) {
  std::vector<T> values(count);
  for (T& value : values) value = any_value<T>(numbers);
  return values;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <typename T>
Bytes bytes(const std::vector<T>& values, std::size_t from = 0) {
  return std::as_bytes(std::span(values).subspan(from));
}
template <typename T>
MutableBytes writable(std::vector<T>& values, std::size_t from = 0) {
  return std::as_writable_bytes(std::span(values).subspan(from));
}

// --- the laws, for each element type ---

template <typename T>
class Reduce : public ::testing::Test {};
using ElementTypes = ::testing::Types<float, double, std::int64_t, std::int32_t, std::int16_t,
                                      std::int8_t, std::uint8_t>;
TYPED_TEST_SUITE(Reduce, ElementTypes);

TYPED_TEST(Reduce, IsTheReferenceBitForBitForEveryOperationAndCount) {
  using T = TypeParam;
  SeededNumbers numbers(test::seed(1));
  for (const ReduceOp op : ops_of<T>()) {
    for (const std::size_t count : kCounts) {
      const auto left = any_values<T>(count, numbers), right = any_values<T>(count, numbers);
      std::vector<T> expected(count), target(count);
      for (std::size_t i = 0; i < count; ++i) expected[i] = combined(op, left[i], right[i]);
      reduce(op, dtype_of<T>(), bytes(left), bytes(right), writable(target));
      EXPECT_TRUE(same_bits(target, expected)) << name_of(op) << ", " << count << " elements";
    }
  }
}

TYPED_TEST(Reduce, MayWriteOverEitherOperand) {
  using T = TypeParam;
  SeededNumbers numbers(test::seed(2));
  for (const ReduceOp op : ops_of<T>()) {
    for (const std::size_t count : kCounts) {
      const auto left = any_values<T>(count, numbers), right = any_values<T>(count, numbers);
      std::vector<T> expected(count);
      reduce(op, dtype_of<T>(), bytes(left), bytes(right), writable(expected));
      auto over_left = left, over_right = right;
      reduce(op, dtype_of<T>(), bytes(over_left), bytes(right), writable(over_left));
      reduce(op, dtype_of<T>(), bytes(left), bytes(over_right), writable(over_right));
      EXPECT_TRUE(same_bits(over_left, expected)) << name_of(op) << ", " << count << " elements";
      EXPECT_TRUE(same_bits(over_right, expected)) << name_of(op) << ", " << count << " elements";
    }
  }
}

TYPED_TEST(Reduce, DoesNotDependOnWhereInMemoryTheElementsLie) {
  using T = TypeParam;
  SeededNumbers numbers(test::seed(3));
  for (const ReduceOp op : ops_of<T>()) {
    for (const std::size_t count : kCounts) {
      const auto left = any_values<T>(count, numbers), right = any_values<T>(count, numbers);
      std::vector<T> expected(count);
      reduce(op, dtype_of<T>(), bytes(left), bytes(right), writable(expected));
      for (std::size_t shift = 0; shift < 8;
           ++shift) {  // one bit for each of left, right and target
        const std::size_t l = shift & 1, r = shift >> 1 & 1, t = shift >> 2;
        std::vector<T> far_left(l), far_right(r), target(count + t, T{42});
        far_left.insert(far_left.end(), left.begin(), left.end());
        far_right.insert(far_right.end(), right.begin(), right.end());
        reduce(op, dtype_of<T>(), bytes(far_left, l), bytes(far_right, r), writable(target, t));
        EXPECT_TRUE(
            same_bits(std::vector<T>(target.begin() + static_cast<std::ptrdiff_t>(t), target.end()),
                      expected));
        EXPECT_TRUE(t == 0 || target[0] == T{42}) << "the element before";
      }
    }
  }
}

TYPED_TEST(Reduce, LeavesTheBytesAroundTheTargetAlone) {
  using T = TypeParam;
  SeededNumbers numbers(test::seed(4));
  for (const std::size_t count : kCounts) {
    const auto left = any_values<T>(count, numbers), right = any_values<T>(count, numbers);
    std::vector<T> target(count + 2, T{42});
    reduce(ReduceOp::sum, dtype_of<T>(), bytes(left), bytes(right),
           writable(target).subspan(sizeof(T), count * sizeof(T)));
    EXPECT_EQ(target.front(), T{42});
    EXPECT_EQ(target.back(), T{42});
  }
}

TYPED_TEST(Reduce, ExtremesDoNotDependOnTheOrderUnlessBothAreNaN) {
  using T = TypeParam;
  SeededNumbers numbers(test::seed(5));
  const auto left = any_values<T>(1003, numbers), right = any_values<T>(1003, numbers);
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    std::vector<T> one(1003), other(1003);
    reduce(op, dtype_of<T>(), bytes(left), bytes(right), writable(one));
    reduce(op, dtype_of<T>(), bytes(right), bytes(left), writable(other));
    for (std::size_t i = 0; i < one.size(); ++i) {
      if (left[i] != left[i] && right[i] != right[i]) continue;
      EXPECT_EQ(std::memcmp(&one[i], &other[i], sizeof(T)), 0);
    }
  }
}

// --- what floating point needs in particular ---

template <typename T>
T one(ReduceOp op, T left, T right) {
  // Long enough that vectors and the rest both take part; all elements are equal.
  const std::vector<T> l(37, left), r(37, right);
  std::vector<T> target(37);
  reduce(op, dtype_of<T>(), bytes(l), bytes(r), writable(target));
  for (const T& value : target) EXPECT_EQ(std::memcmp(&value, target.data(), sizeof(T)), 0);
  return target[0];
}

std::uint32_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
std::uint64_t bits(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

TEST(ReduceFloat, NaNWinsInExtremesFromEitherSideAndKeepsItsPayload) {
  const float a = std::bit_cast<float>(0x7fc01234u), b = std::bit_cast<float>(0xffc0abcdu);
  const double c = std::bit_cast<double>(0x7ff8000000001234u),
               d = std::bit_cast<double>(0xfff800000000abcdu);
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    EXPECT_EQ(bits(one(op, a, 1.0f)), bits(a));
    EXPECT_EQ(bits(one(op, 1.0f, a)), bits(a));
    EXPECT_EQ(bits(one(op, a, b)), bits(a)) << "the left one of two";
    EXPECT_EQ(bits(one(op, b, a)), bits(b));
    EXPECT_EQ(bits(one(op, -std::numeric_limits<double>::infinity(), c)), bits(c));
    EXPECT_EQ(bits(one(op, c, d)), bits(c));
  }
}

TEST(ReduceFloat, SumKeepsThePayloadOfTheLeftNaN) {
  const float a = std::bit_cast<float>(0x7fc01234u), b = std::bit_cast<float>(0x7fc0abcdu);
  EXPECT_EQ(bits(one(ReduceOp::sum, a, b)), bits(a));
  EXPECT_EQ(bits(one(ReduceOp::sum, b, a)), bits(b));
  EXPECT_EQ(bits(one(ReduceOp::sum, 1.0f, b)), bits(b));
}

TEST(ReduceFloat, MinusZeroIsLessThanPlusZero) {
  EXPECT_EQ(bits(one(ReduceOp::min, 0.0f, -0.0f)), bits(-0.0f));
  EXPECT_EQ(bits(one(ReduceOp::min, -0.0f, 0.0f)), bits(-0.0f));
  EXPECT_EQ(bits(one(ReduceOp::max, 0.0, -0.0)), bits(0.0));
  EXPECT_EQ(bits(one(ReduceOp::max, -0.0, 0.0)), bits(0.0));
}

TEST(ReduceInteger, SumsWrap) {
  EXPECT_EQ(one<std::uint8_t>(ReduceOp::sum, 200, 100), 44);
  EXPECT_EQ(one(ReduceOp::sum, std::numeric_limits<std::int64_t>::max(), std::int64_t{1}),
            std::numeric_limits<std::int64_t>::min());
}

// --- scale, and refused arguments ---

template <typename T>
void expect_scale_multiplies_once() {
  SeededNumbers numbers(test::seed(6));
  for (const std::size_t count : kCounts) {
    for (const std::size_t from : {0u, 1u}) {
      auto values = any_values<T>(count + from + 1, numbers);
      values.front() = values.back() = T{42};
      auto expected = values;
      const double factor = 1.0 / 3.0;
      for (std::size_t i = from; i < from + count; ++i) expected[i] *= static_cast<T>(factor);
      scale(dtype_of<T>(), writable(values).subspan(from * sizeof(T), count * sizeof(T)), factor);
      EXPECT_TRUE(same_bits(values, expected)) << count;
    }
  }
}

TEST(Scale, MultipliesEachElementOnceInItsOwnType) {
  expect_scale_multiplies_once<float>();
  expect_scale_multiplies_once<double>();
}

TEST(Scale, RefusesWhatHasNoAverage) {
  std::vector<std::int64_t> integers(3);
  for (const Dtype dtype : kDtypes) {
    if (is_floating(dtype)) continue;
    EXPECT_THROW(scale(dtype, writable(integers), 0.5), Error) << name_of(dtype);
  }
}

TEST(ReduceArguments, MustBeOfATypeThatHasTheReductionAndOfEqualLength) {
  std::vector<double> a(4), b(4), c(3);
  for (const Dtype dtype : kDtypes) {
    for (const ReduceOp op : kOps) {
      if (can_reduce(op, dtype)) {
        EXPECT_NO_THROW(reduce(op, dtype, bytes(a), bytes(b), writable(a)));
      } else {
        EXPECT_THROW(reduce(op, dtype, bytes(a), bytes(b), writable(a)), Error)
            << name_of(op) << " of " << name_of(dtype);
      }
    }
    const bool has_average = is_floating(dtype), has_bits = !is_floating(dtype);
    EXPECT_EQ(can_reduce(ReduceOp::average, dtype), has_average) << name_of(dtype);
    for (const ReduceOp op : {ReduceOp::band, ReduceOp::bor, ReduceOp::bxor}) {
      EXPECT_EQ(can_reduce(op, dtype), has_bits) << name_of(dtype);
    }
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
      EXPECT_TRUE(can_reduce(op, dtype)) << name_of(dtype);
      EXPECT_EQ(rounds(op, dtype),
                is_floating(dtype) && op != ReduceOp::min && op != ReduceOp::max);
    }
  }
  EXPECT_THROW(reduce(ReduceOp::sum, Dtype::f64, bytes(a), bytes(c), writable(a)), Error);
  EXPECT_THROW(reduce(ReduceOp::sum, Dtype::f64, bytes(a), bytes(b), writable(c)), Error);
}

TEST(ReduceOp, HasANameOrIsUnknown) {
  const std::string_view names[] = {"sum",     "average", "min", "max",
                                    "product", "band",    "bor", "bxor"};
  for (std::size_t i = 0; i < std::size(kOps); ++i) EXPECT_EQ(name_of(kOps[i]), names[i]);
  for (int number = 0; number < 256; ++number) {
    EXPECT_EQ(is_known(static_cast<ReduceOp>(number)), 1 <= number && number <= 8) << number;
  }
}

// --- bool: any byte but 0 is true ---

TEST(ReduceBool, IsLogicAndGivesZeroOrOne) {
  std::vector<std::uint8_t> left, right;
  for (int l = 0; l < 256; l += 5) {
    for (const int r : {0, 1, 2, 128, 255}) {
      left.push_back(static_cast<std::uint8_t>(l));
      right.push_back(static_cast<std::uint8_t>(r));
    }
  }
  for (const ReduceOp op : kOps) {
    if (!can_reduce(op, Dtype::boolean)) continue;
    std::vector<std::uint8_t> target(left.size());
    reduce(op, Dtype::boolean, bytes(left), bytes(right), writable(target));
    for (std::size_t i = 0; i < left.size(); ++i) {
      const bool l = left[i] != 0, r = right[i] != 0;
      const bool is_and = op == ReduceOp::product || op == ReduceOp::min || op == ReduceOp::band;
      EXPECT_EQ(target[i], op == ReduceOp::bxor ? l != r : is_and ? l && r : l || r) << name_of(op);
    }
  }
}

// --- 16-bit floating point: computed in f32, rounded where it is stored in 16 bits ---

// Any bits; as the halves of a buffer of `dtype`, and exactly as f32.
struct Halves {
  Halves(Dtype type, std::size_t count, SeededNumbers& numbers)
      : dtype(type), bits(count), floats(count) {
    for (auto& b : bits)
      b = static_cast<std::uint16_t>(numbers.below(4) == 0 ? numbers.next()
                                                           : 0x3800 + numbers.below(0x1000));
    widen(dtype, bytes(bits), floats);
  }
  ConstBuffer narrow() const { return {bytes(bits).data(), bits.size(), dtype}; }
  ConstBuffer wide() const { return const_buffer_of(floats); }
  Dtype dtype;
  std::vector<std::uint16_t> bits;
  std::vector<float> floats;
};

TEST(ReduceHalf, IsTheReductionInFloatsRoundedOnceWhereverOperandsAndTargetLie) {
  SeededNumbers numbers(test::seed(7));
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    for (const ReduceOp op : kOps) {
      if (!can_reduce(op, dtype)) continue;
      for (const std::size_t count : {0, 1, 7, 33, 1024, 2500}) {
        const Halves left(dtype, count, numbers), right(dtype, count, numbers);
        std::vector<float> wide(count);
        reduce(op, Dtype::f32, bytes(left.floats), bytes(right.floats), writable(wide));
        std::vector<float> scaled = wide;
        scale(Dtype::f32, writable(scaled), 0.3);
        std::vector<std::uint16_t> rounded(count), rounded_scaled(count), target(count);
        narrow(dtype, wide, writable(rounded));
        narrow(dtype, scaled, writable(rounded_scaled));
        reduce(op, dtype, bytes(left.bits), bytes(right.bits), writable(target));
        EXPECT_TRUE(same_bits(target, rounded)) << name_of(op) << " of " << name_of(dtype);
        for (int kinds = 0; kinds < 4; ++kinds) {
          const ConstBuffer l = kinds & 1 ? left.wide() : left.narrow(),
                            r = kinds & 2 ? right.wide() : right.narrow();
          std::vector<float> wide_target(count);
          accumulate(op, l, r, buffer_of(wide_target), 0.3);
          EXPECT_TRUE(same_bits(wide_target, scaled));
          accumulate(op, l, r, {writable(target).data(), count, dtype}, 0.3);
          EXPECT_TRUE(same_bits(target, rounded_scaled));
        }
        auto over_left = left.floats;
        accumulate(op, buffer_of(over_left), right.narrow(), buffer_of(over_left), 1);
        EXPECT_TRUE(same_bits(over_left, wide)) << "over the left operand";
      }
    }
  }
}

TEST(ReduceHalf, MayWriteOverAnOperandOfTheOtherWidth) {
  SeededNumbers numbers(test::seed(9));
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    for (const std::size_t count : {1, 1024, 1025, 5000}) {
      const Halves left(dtype, count, numbers), right(dtype, count, numbers);
      std::vector<float> wide(count), memory(count);
      accumulate(ReduceOp::sum, left.narrow(), right.narrow(), buffer_of(wide), 1);
      std::vector<std::uint16_t> rounded(count);
      narrow(dtype, wide, writable(rounded));
      for (const bool over_left : {true, false}) {
        std::memcpy(memory.data(), (over_left ? left : right).bits.data(), 2 * count);
        const ConstBuffer shared{bytes(memory).data(), count, dtype};
        accumulate(ReduceOp::sum, over_left ? shared : left.narrow(),
                   over_left ? right.narrow() : shared, buffer_of(memory), 1);
        EXPECT_TRUE(same_bits(memory, wide)) << "wider, " << count;
      }
      memory = left.floats;
      accumulate(ReduceOp::sum, buffer_of(memory), right.narrow(),
                 {writable(memory).data(), count, dtype}, 1);
      EXPECT_EQ(std::memcmp(memory.data(), rounded.data(), 2 * count), 0) << "narrower, " << count;
    }
  }
}

TEST(ReduceHalf, ScalesInFloats) {
  SeededNumbers numbers(test::seed(8));
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    Halves values(dtype, 2500, numbers);
    scale(Dtype::f32, writable(values.floats), 1.0 / 3);
    scale(dtype, writable(values.bits), 1.0 / 3);
    std::vector<std::uint16_t> wanted(2500);
    narrow(dtype, values.floats, writable(wanted));
    EXPECT_TRUE(same_bits(values.bits, wanted)) << name_of(dtype);
  }
}

}  // namespace
}  // namespace paceline
