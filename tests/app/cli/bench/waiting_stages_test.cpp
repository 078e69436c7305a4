#include "paceline/app/cli/bench/waiting_stages.h"

#include <gtest/gtest.h>

#include "paceline/app/cli/pipeline/pipeline_options.h"
#include "tests/support/local_world.h"

namespace paceline::cli {
namespace {

TEST(WaitingStages, SendWholeMessagesAndTakeNoLessThanTheirTimes) {
  for (const char* schedule : {"1f1b", "interleaved:chunks=2", "zero_bubble"}) {
    const PipelineCase one = checked_case(
        {.schedule = schedule, .micro_batches = "4", .durations = "1:1:1", .message = "100KiB"}, 2);
    const pipeline::PipelineCosts costs = one.costs();
    test::run_ranks(2, [&](Job& job) {
      WaitingStages stages(job.world(), one.order, costs);
      const auto report = pipeline::run(job.world(), one.order, stages);
      EXPECT_EQ(stages.errors(), 0) << schedule;
      EXPECT_GE(report.compute_seconds, 12e-3 - 1e-6) << schedule;
    });
  }
}

TEST(WaitingStages, AMessageOfAnotherOperationIsAnError) {
  const PipelineCase one = checked_case({.schedule = "gpipe", .durations = "1:1:1"}, 2);
  const pipeline::PipelineCosts costs = one.costs();
  test::run_ranks(2, [&](Job& job) {
    if (job.rank() == 0) return;
    WaitingStages stages(job.world(), one.order, costs);
    stages.room({pipeline::Kind::forward, 1, 3, 0});  // nothing arrives there
    stages.compute({pipeline::Kind::forward, 1, 3});
    EXPECT_GT(stages.errors(), 0);
  });
}

}  // namespace
}  // namespace paceline::cli
