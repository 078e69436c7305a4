#include "paceline/core/pipeline/run/trace_operations.h"

#include <gtest/gtest.h>

#include <vector>

namespace paceline::pipeline {
namespace {

Clock::time_point at(int milliseconds) {
  return Clock::time_point(std::chrono::milliseconds(milliseconds));
}

TEST(TraceOperations, ASpanHasTheKindTheMicroBatchTheStageAndTheTimesOfItsOperation) {
  StepReport report;
  report.operations = {{{Kind::forward, 1, 3}, at(5), at(7)},
                       {{Kind::backward, 0, 2}, at(7), at(11)},
                       {{Kind::weight, 0, 2}, at(12), at(13)}};
  TraceLog log;
  trace_operations(report, log);
  EXPECT_TRUE(log.take().empty()) << "nobody enabled it";
  log.enable();
  trace_operations(report, log);
  constexpr std::int64_t kMs = 1'000'000;
  const std::vector<TraceSpan> expected = {
      {TraceLane::stages, "F micro-batch 3 on stage 1", 5 * kMs, 7 * kMs},
      {TraceLane::stages, "B micro-batch 2 on stage 0", 7 * kMs, 11 * kMs},
      {TraceLane::stages, "W micro-batch 2 on stage 0", 12 * kMs, 13 * kMs}};
  EXPECT_EQ(log.take(), expected);
}

}  // namespace
}  // namespace paceline::pipeline
