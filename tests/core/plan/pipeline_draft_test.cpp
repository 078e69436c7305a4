#include "paceline/core/plan/pipeline_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace paceline::plan {
namespace {

using ::testing::HasSubstr;

// Layers of 1, 2, 4 and 8 s, of which a third is the forward pass; outputs of 10, 20, 40, 80 bytes.
std::vector<LayerCost> doubling_layers() {
  std::vector<LayerCost> layers;
  for (const double size : {1., 2., 4., 8.})
    layers.push_back({.forward = size / 3,
                      .backward = size * 2 / 3,
                      .output_bytes = 10 * size,
                      .weight_bytes = 100 * size,
                      .saved_bytes = 30 * size});
  return layers;
}

PlanQuestion question_on(double bytes_per_second, double latency) {
  return {.layers = doubling_layers(),
          .profiled_batch = 4,
          .batch = 4,
          .ranks = 2,
          .bytes_per_second = bytes_per_second,
          .latency = latency};
}

PipelineDraft draft_of_text(const PlanQuestion& question, const char* partition, int copies) {
  return draft_of(question, question.form, StagePartition::parse(partition, 4).value(), copies);
}

TEST(PipelineDraft, DataParallelRanksAddWhatTheirBackwardPassDoesNotHideOfTheRing) {
  const double half = 7.5;  // seconds of two of the four samples
  for (const double rate : {1e2, 3e2, 1e9}) {
    const PlanQuestion question = question_on(rate, .25);
    const double ring = 2 * (.25 + 1500 / 2 / rate);  // two messages of half of the weights
    const double exposed = std::max(0.0, ring - half * 2 / 3);
    EXPECT_NEAR(planned(draft_of_text(question, "0-3", 2), 1).seconds, half + exposed, 1e-9);
  }
  PlanQuestion masters = question_on(1e2, .25);
  masters.has_masters = true;  // gradients of 16 bits
  EXPECT_NEAR(planned(draft_of_text(masters, "0-3", 2), 1).seconds,
              half + 2 * (.25 + 750 / 2 / 1e2) - half * 2 / 3, 1e-9);
}

TEST(PipelineDraft, TransfersTakeTheLatencyAndTheBytesOfAMicroBatch) {
  const PlanQuestion question = question_on(10, .5);
  const PipelinePlan plan = planned(draft_of_text(question, "0-1,2-3", 1), 2);
  EXPECT_DOUBLE_EQ(plan.stages[0].times.transfer, .5 + 20 / 2 / 10.);
  EXPECT_DOUBLE_EQ(plan.stages[0].times.seconds(), 1.5);
  EXPECT_DOUBLE_EQ(plan.stages[1].times.seconds(), 6);
  EXPECT_DOUBLE_EQ(plan.seconds, 7.5 + 2 * 1.5 + 6) << "the last stage sets the pace";
  EXPECT_DOUBLE_EQ(plan.idle_share, 1 - 15 / (2 * 16.5));
}

TEST(PipelineDraft, ReplicasOfPipedreamSumTheirGradientsBesideTheComputation) {
  PlanQuestion question = question_on(10, 0);
  question.form = {.kind = PipelineKind::pipedream};
  const PipelinePlan quick = planned(draft_of_text(question, "0-2,3x2", 1), 1);
  EXPECT_DOUBLE_EQ(quick.seconds, 800 / 10. / 2) << "800 bytes for every two mini-batches";
  question.bytes_per_second = 1e9;
  const PipelinePlan compute = planned(draft_of_text(question, "0-2,3x2", 1), 1);
  EXPECT_NEAR(compute.seconds, 7, 1e-6);
}

TEST(PipelineDraft, ChunksOfARankAreEveryPthPart) {
  PlanQuestion question = question_on(1e9, 0);
  question.form = {.kind = PipelineKind::interleaved, .chunks = 2};
  const PipelinePlan plan = planned(draft_of_text(question, "0,1,2,3", 1), 2);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_EQ(plan.stages[0].chunks, (std::vector<Stage>{{0, 0, 1}, {2, 2, 1}}));
  EXPECT_EQ(plan.stages[1].chunks, (std::vector<Stage>{{1, 1, 1}, {3, 3, 1}}));
  EXPECT_EQ(plan.stages[0].memory.weights, 100 + 400);
  EXPECT_EQ(plan.stages[1].memory.weights, 200 + 800);
  EXPECT_DOUBLE_EQ(plan.stages[1].times.seconds(), 5);
}

// The ranks have the same work, but in their other halves: each micro-batch waits for both in turn.
// By hand: forward on rank 1 from 0 and 1, on rank 0 from 1 and 2, and back from 3 and 4 to 6.
TEST(PipelineDraft, ChunksThatDifferDelayEachOther) {
  PlanQuestion question = question_on(1e9, 0);
  question.form = {.kind = PipelineKind::interleaved, .chunks = 2};
  for (std::size_t i = 0; i < 4; ++i) {
    const double seconds = i == 1 || i == 2 ? 2 : 0;  // of both micro-batches
    question.layers[i] = {.forward = seconds, .backward = seconds};
  }
  const PipelinePlan plan = planned(draft_of_text(question, "0,1,2,3", 1), 2);
  EXPECT_NEAR(plan.seconds, 6, 1e-9) << "5 if all chunks were equal";
}

TEST(PipelineDraft, OrdersOfVeryManyMicroBatchesAreNotSimulated) {
  const PlanQuestion question = question_on(1e9, 0);
  const PipelinePlan plan = planned(draft_of_text(question, "0,1,2,3", 1), 1'000'000'000);
  EXPECT_NEAR(plan.seconds, 8, 1e-6) << "the slowest stage, without a pause";
}

TEST(PipelineDraft, SegmentsOfALaterStageKeepTheOutputOfTheStageBefore) {
  PlanQuestion question = question_on(1e9, 0);
  question.recompute = {2};
  const PipelinePlan plan = planned(draft_of_text(question, "0-1,2-3", 1), 1);
  EXPECT_EQ(plan.stages[0].memory.activations, 30 + 60) << "the batch itself is not counted";
  EXPECT_EQ(plan.stages[1].memory.activations, 20 + 120 + 240);
}

TEST(PipelineDraft, StartsAndLatenciesAreTheCostOfAMicroBatchThatIsTold) {
  PlanQuestion question = question_on(1e9, .02);
  question.batch = 64;
  question.start = .01;
  const PipelinePlan plan = finished(draft_of_text(question, "0-1,2-3", 1)).value();
  EXPECT_THAT(plan.why, HasSubstr("a micro-batch takes 50 ms and 3e+03 ms a sample"));
  EXPECT_DOUBLE_EQ(plan.stages[1].times.seconds(), 12. * 64 / 4 / plan.micro_batches + .01);
}

}  // namespace
}  // namespace paceline::plan
