#include "paceline/app/cli/pipeline/pipeline_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal_of(const PipelineOptions& given, int ranks) {
  try {
    checked_case(given, ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    return error.what();
  }
  return {};
}

TEST(PipelineOptions, DurationsAreMillisecondsOfARankAndAreDividedAmongItsChunks) {
  const auto one = checked_case({.schedule = "interleaved:chunks=4", .durations = "8:12:4"}, 2);
  const auto costs = one.costs();
  ASSERT_EQ(costs.stages.size(), 8u);
  EXPECT_NEAR(costs.stages[5].forward, 2e-3, 1e-15);
  EXPECT_NEAR(costs.stages[5].backward, 3e-3, 1e-15);
  EXPECT_NEAR(costs.stages[5].weight, 1e-3, 1e-15);
  EXPECT_EQ(costs.cut_bytes, std::vector<double>(7, 262144));
}

TEST(PipelineOptions, RanksMayHaveTimesOfTheirOwn) {
  const auto one = checked_case({.schedule = "1f1b", .durations = "1:2:3,4:5:0"}, 2);
  EXPECT_FALSE(one.is_equal());
  EXPECT_NEAR(one.costs().stages[1].forward, 4e-3, 1e-15);
}

TEST(PipelineOptions, WrongValuesAreToldWithTheRemedy) {
  EXPECT_THAT(refusal_of({.schedule = "gpip"}, 4), HasSubstr("did you mean gpipe"));
  EXPECT_THAT(refusal_of({.schedule = "interleaved", .micro_batches = "6"}, 4),
              HasSubstr("give 4 or 8"));
  EXPECT_THAT(refusal_of({.micro_batches = "0"}, 4), HasSubstr("--micro-batches: 0 is too few"));
  EXPECT_THAT(refusal_of({.batches = "3"}, 4), HasSubstr("pipedream"));
  for (const char* wrong : {"10", "10:10", "10:x:10", "0:1:1", "1:1:-1", "1:1:inf", ""})
    EXPECT_THAT(refusal_of({.durations = wrong}, 4), HasSubstr("--durations")) << wrong;
  EXPECT_THAT(refusal_of({.durations = "1:1:1,1:1:1,1:1:1"}, 4),
              AllOf(HasSubstr("times for 3 ranks"), HasSubstr("there are 4 ranks")));
  EXPECT_THAT(refusal_of({.message = "much"}, 4), HasSubstr("--message"));
  EXPECT_THAT(refusal_of({.micro_batches = "100000"}, 1024), HasSubstr("give fewer"));
}

}  // namespace
}  // namespace paceline::cli
