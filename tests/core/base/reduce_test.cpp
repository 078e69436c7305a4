#include "paceline/core/base/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/base/seed.h"

namespace paceline {
namespace {

constexpr std::size_t kCounts[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 1000, 1003};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max};

// --- the obvious reference ---

template <typename T>
T quiet(T nan) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(nan) | 0x400000u);
  else
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(nan) | 0x8000000000000u);
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
    return left + right;
  } else {
    using Wrapping = std::make_unsigned_t<T>;
    return static_cast<T>(
        static_cast<Wrapping>(static_cast<Wrapping>(left) + static_cast<Wrapping>(right)));
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
using ElementTypes = ::testing::Types<float, double, std::int64_t, std::uint8_t>;
TYPED_TEST_SUITE(Reduce, ElementTypes);

TYPED_TEST(Reduce, IsTheReferenceBitForBitForEveryOperationAndCount) {
  using T = TypeParam;
  SeededNumbers numbers(1);
  for (const ReduceOp op : kOps) {
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
  SeededNumbers numbers(2);
  for (const ReduceOp op : kOps) {
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
  SeededNumbers numbers(3);
  for (const ReduceOp op : kOps) {
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
  SeededNumbers numbers(4);
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
  SeededNumbers numbers(5);
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

// --- scale, and what is refused ---

template <typename T>
void expect_scale_multiplies_once() {
  SeededNumbers numbers(6);
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
  EXPECT_THROW(scale(Dtype::i64, writable(integers), 0.5), Error);
  EXPECT_THROW(scale(Dtype::u8, writable(integers), 0.5), Error);
}

TEST(ReduceArguments, MustBeOfATypeThatCanBeSummedAndOfEqualLength) {
  std::vector<float> a(4), b(4), c(3);
  for (const Dtype dtype :
       {Dtype::f16, Dtype::bf16, Dtype::i32, Dtype::i16, Dtype::i8, Dtype::boolean}) {
    EXPECT_THROW(reduce(ReduceOp::sum, dtype, bytes(a), bytes(b), writable(a)), Error)
        << name_of(dtype);
  }
  EXPECT_THROW(reduce(ReduceOp::sum, Dtype::f32, bytes(a), bytes(c), writable(a)), Error);
  EXPECT_THROW(reduce(ReduceOp::sum, Dtype::f32, bytes(a), bytes(b), writable(c)), Error);
}

TEST(ReduceOp, HasANameOrIsUnknown) {
  EXPECT_EQ(name_of(ReduceOp::sum), "sum");
  EXPECT_EQ(name_of(ReduceOp::average), "average");
  EXPECT_EQ(name_of(ReduceOp::min), "min");
  EXPECT_EQ(name_of(ReduceOp::max), "max");
  for (int number = 0; number < 256; ++number) {
    EXPECT_EQ(is_known(static_cast<ReduceOp>(number)), 1 <= number && number <= 4) << number;
  }
}

}  // namespace
}  // namespace paceline
