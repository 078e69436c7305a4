#include "paceline/app/cli/bench/pipeline_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Steps that are some times as long as the simulated one.
PipelineMeasurement measured_steps(const PipelineCase& one, const std::vector<double>& factors) {
  PipelineMeasurement measured;
  measured.simulated = pipeline::simulate_order(one.order, one.costs()).value();
  measured.transport = "shm";
  for (const double factor : factors) {
    measured.steps.push_back(measured.simulated);
    measured.steps.back().makespan *= factor;
  }
  return measured;
}

TEST(PipelineBenchReport, TheStepInTheMiddleIsComparedWithTheSimulatedOne) {
  const PipelineCase one = checked_case({.schedule = "1f1b"}, 4);
  const PipelineMeasurement measured = measured_steps(one, {1.5, 1.02, 1.01});
  EXPECT_EQ(&measured.median(), &measured.steps[1]);
  const std::string text = pipeline_bench_text(one, measured);
  EXPECT_THAT(text, ContainsRegex("makespan +336.60 ms +330.00 ms +\\+2.0 %"));
  EXPECT_THAT(text, HasSubstr("steps: 495.0, 336.6, 333.3 ms, shm"));
  EXPECT_THAT(text, HasSubstr("live activations: 4 3 2 1"));
}

TEST(PipelineBenchReport, TheJsonHasBothAndEveryStep) {
  const PipelineCase one = checked_case({.schedule = "gpipe"}, 2);
  const auto json = nlohmann::json::parse(pipeline_bench_json(one, measured_steps(one, {1.1})));
  EXPECT_NEAR(json.at("simulated").at("makespan_ms").get<double>(), 270, 1e-9);
  EXPECT_NEAR(json.at("makespan_ms").get<double>(), 297, 1e-9);
  EXPECT_EQ(json.at("steps_ms").size(), 1u);
  EXPECT_EQ(json.at("transport"), "shm");
  EXPECT_EQ(json.at("errors"), 0);
  EXPECT_EQ(json.at("ranks").size(), 2u);
}

}  // namespace

}  // namespace paceline::cli
