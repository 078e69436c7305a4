// Also covers paceline/core/compress/averaging/cast_average.h.
#include "tests/core/compress/methods/cast_claims.h"

namespace paceline::compress::testing::fp16_claims {
namespace {

const Cast kCast = {"fp16", 1.0 / 2048, 65504.0F, 65520.0F};

TEST(Fp16, IsTheMeanUpToTheRoundingOfTheType) {
  expect_mean_up_to_rounding(kCast);
}

TEST(Fp16, SendsTwoBytesForEachElementInOneAllReduce) {
  expect_two_bytes_in_one_all_reduce(kCast);
}

TEST(Fp16, SkipsTheStepForAFiniteValueThatIsTooLarge) {
  expect_a_skipped_step_for_what_is_too_large(kCast);
}

}  // namespace
}  // namespace paceline::compress::testing::fp16_claims
