// The scale of a loss, step by step.
#include "paceline/torch/precision/loss_scale.h"

#include <gtest/gtest.h>

#include <vector>

namespace paceline::precision {
namespace {

// The sequence is that of the simulation of dynamic scales, whose values are known.
TEST(LossScale, GrowsAfterExactlyIntervalGoodStepsAndHalvesOnAnOverflow) {
  LossScale scale(65536, 2000);
  std::vector<double> scales;
  for (int i = 0; i < 7005; ++i) {
    scale.update(i == 5000);
    scales.push_back(scale.scale());
  }
  EXPECT_EQ(scales[1998], 65536);
  EXPECT_EQ(scales[1999], 131072);
  EXPECT_EQ(scales[3999], 262144);
  EXPECT_EQ(scales[5000], 131072);
  EXPECT_EQ(scales[6999], 131072);
  EXPECT_EQ(scales[7000], 262144);
}

TEST(LossScale, GoesOnFromWhatWasSaved) {
  LossScale whole(1024, 5), first(1024, 5);
  for (int i = 0; i < 7; ++i) {
    whole.update(i == 3);
    first.update(i == 3);
  }
  LossScale second(4, 5);
  second.restore(first.scale(), first.good_steps());
  for (int i = 0; i < 9; ++i) {
    whole.update(i == 6);
    second.update(i == 6);
    EXPECT_EQ(whole.scale(), second.scale());
    EXPECT_EQ(whole.good_steps(), second.good_steps());
  }
}

TEST(LossScale, DoesNotFallBelowItsFloorAndRisesFromThere) {
  LossScale scale(16, 3, 4);
  for (int i = 0; i < 2000; ++i) scale.update(true);
  EXPECT_EQ(scale.scale(), 4);
  for (int i = 0; i < 3; ++i) scale.update(false);
  EXPECT_EQ(scale.scale(), 8);
  scale.restore(0x1p-44, 0);
  EXPECT_EQ(scale.scale(), 4) << "as a run without a floor has saved it";
}

TEST(LossScale, StaysAFloatWhateverTheNumberOfGoodSteps) {
  LossScale scale(65536, 1);
  for (int i = 0; i < 2000; ++i) scale.update(false);
  EXPECT_LE(scale.scale(), 1e38);
}

}  // namespace
}  // namespace paceline::precision
