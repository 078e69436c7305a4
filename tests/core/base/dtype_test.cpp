#include "paceline/core/base/dtype.h"

#include <gtest/gtest.h>

#include <set>

namespace paceline {
namespace {

constexpr Dtype kAll[] = {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i64,
                          Dtype::i32, Dtype::i16, Dtype::i8,  Dtype::u8,   Dtype::boolean};

TEST(Dtype, HasTheNumbersOfTheWireFormat) {
  int number = 0;
  for (const Dtype dtype : kAll) EXPECT_EQ(static_cast<int>(dtype), ++number) << name_of(dtype);
}

TEST(Dtype, IsKnownExactlyWhenItHasASizeAndAName) {
  std::set<std::string_view> names;
  for (int number = 0; number < 256; ++number) {
    const auto dtype = static_cast<Dtype>(number);
    const bool is_one_of_ours = 1 <= number && number <= 10;
    EXPECT_EQ(is_known(dtype), is_one_of_ours) << number;
    EXPECT_EQ(size_of(dtype) != 0, is_one_of_ours) << number;
    EXPECT_EQ(name_of(dtype) != "unknown", is_one_of_ours) << number;
    if (is_one_of_ours) names.insert(name_of(dtype));
  }
  EXPECT_EQ(names.size(), 10u);
}

TEST(Dtype, IsFloatingOrNot) {
  const std::set<Dtype> floating{Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16};
  for (const Dtype dtype : kAll)
    EXPECT_EQ(is_floating(dtype), floating.contains(dtype)) << name_of(dtype);
}

template <typename T>
void expect_of(Dtype dtype) {
  EXPECT_EQ(dtype_of<T>(), dtype);
  EXPECT_EQ(dtype_of<const T>(), dtype);
  EXPECT_EQ(size_of(dtype), sizeof(T));
}

TEST(Dtype, OfACppTypeHasItsSize) {
  expect_of<double>(Dtype::f64);
  expect_of<float>(Dtype::f32);
  expect_of<std::int64_t>(Dtype::i64);
  expect_of<std::int32_t>(Dtype::i32);
  expect_of<std::int16_t>(Dtype::i16);
  expect_of<std::int8_t>(Dtype::i8);
  expect_of<std::uint8_t>(Dtype::u8);
  expect_of<std::byte>(Dtype::u8);
  expect_of<bool>(Dtype::boolean);
}

}  // namespace
}  // namespace paceline
