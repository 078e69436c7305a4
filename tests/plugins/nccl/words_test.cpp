#include "paceline/plugins/nccl/words.h"

#include <gtest/gtest.h>

#include "paceline/core/base/half.h"

namespace paceline::nccl {
namespace {

constexpr Dtype kDtypes[] = {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i64,
                             Dtype::i32, Dtype::i16, Dtype::i8,  Dtype::u8,   Dtype::boolean};
constexpr ReduceOp kOps[] = {ReduceOp::sum,     ReduceOp::average, ReduceOp::min, ReduceOp::max,
                             ReduceOp::product, ReduceOp::band,    ReduceOp::bor, ReduceOp::bxor};

TEST(NcclWords, AreThereForAllButBitsAndI16) {
  for (const Dtype dtype : kDtypes) {
    for (const ReduceOp op : kOps) {
      if (!can_reduce(op, dtype)) continue;
      const bool bits = op == ReduceOp::bxor || op == ReduceOp::band || op == ReduceOp::bor;
      const bool has =
          dtype == Dtype::boolean ? op != ReduceOp::bxor : dtype != Dtype::i16 && !bits;
      EXPECT_EQ(words_for(op, dtype).has_value(), has) << name_of(op) << " of " << name_of(dtype);
    }
  }
}

TEST(NcclWords, AFactorIsOfTheElementsType) {
  for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16}) {
    const auto scalar = scalar_of(dtype, 0.375);
    ASSERT_EQ(scalar.size(), size_of(dtype));
    float single = 0;
    double twice = 0;
    if (is_half(dtype)) widen(dtype, scalar, {&single, 1});
    else if (dtype == Dtype::f32) std::memcpy(&single, scalar.data(), sizeof(single));
    else std::memcpy(&twice, scalar.data(), sizeof(twice));
    EXPECT_EQ(static_cast<double>(single) + twice, 0.375);
  }
}

}  // namespace
}  // namespace paceline::nccl
