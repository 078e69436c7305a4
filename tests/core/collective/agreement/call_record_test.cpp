#include "paceline/core/collective/agreement/call_record.h"

#include <gtest/gtest.h>

namespace paceline::collective {
namespace {

CallRecord roll_of(const std::vector<double>& weights, Dtype dtype, bool weighted = true) {
  CallRecord roll(static_cast<int>(weights.size()));
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    roll.enter(static_cast<int>(rank), {.operation = Operation::all_reduce,
                                        .op = ReduceOp::average,
                                        .dtype = dtype,
                                        .weighted = weighted,
                                        .weight = weights[rank]});
  }
  return roll;
}

TEST(CallRecord, KnowsWhoIsMissing) {
  CallRecord roll(3);
  EXPECT_EQ(roll.missing(), (std::vector{0, 1, 2}));
  roll.enter(1, {});
  EXPECT_FALSE(roll.is_complete());
  EXPECT_TRUE(roll.call_of(1).has_value());
  EXPECT_EQ(roll.missing(), (std::vector{0, 2}));
  roll.enter(0, {});
  roll.enter(2, {});
  EXPECT_TRUE(roll.is_complete());
  EXPECT_TRUE(roll.missing().empty());
}

TEST(CallRecord, EqualWeightsAreAPlainAverage) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16}) {
    EXPECT_TRUE(roll_of({2.5, 2.5}, dtype).weigh_the_same());
    EXPECT_EQ(roll_of({2.5, 2.5}, dtype).sum_factor(), 0.5);
    EXPECT_EQ(roll_of({1, 1, 1, 1}, dtype, false).sum_factor(), 0.25);
    EXPECT_EQ(roll_of({2.5, 2.5}, dtype).total_weight(), 5);
  }
}

TEST(CallRecord, InputAndSumTogetherAreScaledByTheShareOfTheWeights) {
  const std::vector<double> weights = {1, 0, 4};
  for (const Dtype dtype : {Dtype::f64, Dtype::bf16}) {
    const CallRecord roll = roll_of(weights, dtype);
    EXPECT_FALSE(roll.weigh_the_same());
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_DOUBLE_EQ(roll.input_factor(rank) * roll.sum_factor(),
                       weights[static_cast<std::size_t>(rank)] / 5);
    }
  }
  EXPECT_EQ(roll_of(weights, Dtype::bf16).sum_factor(), 1)
      << "16-bit inputs have their share already";
}

TEST(CallRecord, WeightsOfNothingGiveNothing) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16}) {
    const CallRecord roll = roll_of({0, 0}, dtype);
    EXPECT_FALSE(roll.weigh_the_same());
    EXPECT_EQ(roll.input_factor(0), 0);
    EXPECT_EQ(roll.sum_factor(), 1);
  }
}

}  // namespace
}  // namespace paceline::collective
