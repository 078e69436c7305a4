#include "tests/core/compress/methods/cast_claims.h"

namespace paceline::compress::testing::bf16_claims {
namespace {

const Cast kCast = {"bf16", 1.0 / 256, 3.3e38F, 3.4e38F};

TEST(Bf16, IsTheMeanUpToTheRoundingOfTheType) {
  expect_mean_up_to_rounding(kCast);
}

TEST(Bf16, SendsTwoBytesForEachElementInOneAllReduce) {
  expect_two_bytes_in_one_all_reduce(kCast);
}

TEST(Bf16, SkipsTheStepForAFiniteValueThatIsTooLarge) {
  expect_a_skipped_step_for_what_is_too_large(kCast);
}

}  // namespace
}  // namespace paceline::compress::testing::bf16_claims
