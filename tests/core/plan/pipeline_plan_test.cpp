#include "paceline/core/plan/pipeline_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/core/plan/all_partitions.h"
#include "tests/support/seed.h"

namespace paceline::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kFast = 1e18;  // bytes a second: transfers take no time

PipelineForm schedule_of(const char* text) {
  return PipelineForm::parse(text).value();
}

std::vector<LayerCost> equal_layers(int count) {
  return std::vector<LayerCost>(
      static_cast<std::size_t>(count),
      {.forward = 1, .backward = 2, .output_bytes = 100, .weight_bytes = 1000, .saved_bytes = 300});
}

// The mlp of tests/programs/fashion_mnist on a processor that computes 40 GFLOP a second.
std::vector<LayerCost> dense_layers(double samples) {
  std::vector<LayerCost> layers;
  for (const auto& [in, out] : {std::pair(784., 1024.), {1024., 1024.}, {1024., 10.}}) {
    const double forward = 2 * in * out * samples / 40e9;
    layers.push_back({.forward = forward,
                      .backward = 2 * forward,
                      .output_bytes = 4 * out * samples,
                      .weight_bytes = 4 * (in * out + out),
                      .saved_bytes = 4 * (in + out) * samples});
  }
  return layers;
}

const PipelinePlan& plan_named(const PlanReport& report, const std::string& layout) {
  for (const PipelinePlan& plan : report.pipelines)
    if (plan.layout() == layout) return plan;
  ADD_FAILURE() << "there is no " << layout;
  return report.data_parallel;
}

std::string refusal_of(const PlanQuestion& question) {
  const auto report = plan_pipeline(question);
  return report ? std::string("accepted") : report.error().what;
}

TEST(PipelinePlan, OfEqualLayersWithoutTransfersIsTheClosedFormOfEachSchedule) {
  PlanQuestion question{.layers = equal_layers(8),
                        .profiled_batch = 64,
                        .batch = 64,
                        .ranks = 4,
                        .bytes_per_second = kFast,
                        .micro_batches = 8};
  const double all = 8 * 3, micro = all / 4 / 8;  // seconds of the batch; of a stage's micro-batch
  const auto seconds_of = [&](const char* schedule) {
    question.form = schedule_of(schedule);
    return plan_named(plan_pipeline(question).value(), "pp=4").seconds;
  };
  EXPECT_NEAR(seconds_of("gpipe"), 11 * micro, 1e-9);
  EXPECT_NEAR(seconds_of("1f1b"), 11 * micro, 1e-9);
  EXPECT_NEAR(seconds_of("interleaved:chunks=2"), 9.5 * micro, 1e-9);
  EXPECT_NEAR(seconds_of("zero_bubble"), 9 * micro, 1e-9);
  EXPECT_NEAR(seconds_of("sequential"), 32 * micro, 1e-9);
  EXPECT_NEAR(seconds_of("pipedream_2bw"), 8 * micro, 1e-9);
  const auto recomputed = [&](const char* schedule) {
    PlanQuestion again = question;
    again.form = schedule_of(schedule);
    again.recompute = Recompute{1};
    return plan_named(plan_pipeline(again).value(), "pp=4");
  };
  EXPECT_EQ(recomputed("zero_bubble").seconds, recomputed("1f1b").seconds);
  EXPECT_EQ(recomputed("zero_bubble").stages[3].live_micro_batches, 1);
  question.form = schedule_of("1f1b");
  const PlanReport report = plan_pipeline(question).value();
  EXPECT_NEAR(plan_named(report, "pp=4").idle_share, 3.0 / 11, 1e-9);
  EXPECT_NEAR(plan_named(report, "pp=2,dp=2").seconds, 9 * micro, 1e-9);
  EXPECT_NEAR(report.data_parallel.seconds, all / 4, 1e-9);
  EXPECT_EQ(report.best().layout(), "dp=4") << "on such links nothing idles there";
}

// A layer takes 3 s for all 64 samples: 1 s for its start and 2 for the samples; 1/8 s to update.
TEST(PipelinePlan, CountsTheStartOfEachPassAndOneUpdateAStep) {
  std::vector<LayerCost> layers = equal_layers(8);
  for (LayerCost& layer : layers) {
    layer.forward_start = layer.forward / 3;
    layer.backward_start = layer.backward / 3;
    layer.update = .125;
  }
  PlanQuestion question{.layers = layers,
                        .profiled_batch = 64,
                        .batch = 64,
                        .ranks = 4,
                        .bytes_per_second = kFast,
                        .micro_batches = 8};
  const double micro = 2 * (1 + 2. / 8), update = 2 * .125;
  const auto plan_by = [&](const char* schedule) {
    question.form = schedule_of(schedule);
    return plan_named(plan_pipeline(question).value(), "pp=4");
  };
  EXPECT_NEAR(plan_by("gpipe").seconds, 11 * micro + update, 1e-9);
  EXPECT_NEAR(plan_by("1f1b").seconds, 11 * micro + update, 1e-9);
  EXPECT_NEAR(plan_by("pipedream_2bw").seconds, 8 * micro + update, 1e-9);
  question.micro_batches = 0;
  EXPECT_LT(plan_by("gpipe").micro_batches, 8) << "many starts do not pay";
}

TEST(PipelinePlan, OrdersDataAndModelParallelismByTheLinks) {
  PlanQuestion question{
      .layers = dense_layers(256), .profiled_batch = 256, .batch = 256, .ranks = 2};
  const PlanReport slow = plan_pipeline(question).value();
  EXPECT_EQ(slow.best().layout(), "pp=2") << "1 Gbit/s";
  EXPECT_GE(slow.data_parallel.seconds, 7'454'760 / 125e6) << "60 ms of gradients";
  EXPECT_GT(slow.data_parallel.seconds, 1.5 * slow.best().seconds);
  question.bytes_per_second = 4e9;
  EXPECT_EQ(plan_pipeline(question).value().best().layout(), "dp=2");
}

TEST(PipelinePlan, TakesTheMicroBatchesOfTheQuickestForecastOnAnyStagesAndLinks) {
  SeededNumbers numbers(test::seed(41));
  for (int round = 0; round < 20; ++round) {
    PlanQuestion question{.layers = random_layers(numbers, 4),
                          .profiled_batch = 16,
                          .batch = 8 * (1 + static_cast<int>(numbers.below(12))),
                          .ranks = 2,
                          .start = std::pow(10, -2 + 3 * numbers.unit()),
                          .bytes_per_second = std::pow(10, 3 * numbers.unit())};
    for (const char* form : {"gpipe", "1f1b", "zero_bubble", "interleaved:chunks=2"}) {
      question.form = schedule_of(form);
      const PipelinePlan chosen = plan_named(plan_pipeline(question).value(), "pp=2");
      EXPECT_THAT(chosen.why, HasSubstr("m* ="));
      for (int m = 2; m <= question.batch; m += 2) {
        if (question.batch % m != 0) continue;
        PlanQuestion given = question;
        given.micro_batches = m;
        EXPECT_LE(chosen.seconds,
                  plan_named(plan_pipeline(given).value(), "pp=2").seconds * (1 + 1e-9));
      }
    }
  }
}

TEST(PipelinePlan, MemoryOfEachRankIsTheSumOfItsParts) {
  const PlanQuestion question{.layers = equal_layers(8),
                              .profiled_batch = 8,
                              .batch = 16,
                              .ranks = 4,
                              .bytes_per_second = kFast,
                              .optimizer_slots = 2,
                              .micro_batches = 8};
  const PlanReport report = plan_pipeline(question).value();
  const PipelinePlan& straight = plan_named(report, "pp=4");
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const double live = static_cast<double>(4 - stage), micro = 2.0 / 8;
    EXPECT_DOUBLE_EQ(straight.stages[stage].live_micro_batches, live);
    const double messages = 2 * micro * 100;
    EXPECT_DOUBLE_EQ(straight.stages[stage].memory.total(),
                     2000 * 4 + live * micro * 600 + messages);
  }
  EXPECT_DOUBLE_EQ(straight.most_memory(), 8000 + 600 + 50);
  const PipelinePlan& hybrid = plan_named(report, "pp=2,dp=2");
  EXPECT_DOUBLE_EQ(hybrid.stages[0].memory.total(), 4000 * 4 + 2 * (1.0 / 8) * (1200 + 100) + 4000);
  EXPECT_DOUBLE_EQ(report.data_parallel.stages[0].memory.total(), 8000 * 4 + .5 * 2400 + 8000);
}

TEST(PipelinePlan, MoreMemoryOrFasterLinksNeverMakeTheBestSlower) {
  PlanQuestion question{.layers = equal_layers(8),
                        .profiled_batch = 8,
                        .batch = 32,
                        .ranks = 4,
                        .start = .1,
                        .bytes_per_second = 1e3,
                        .optimizer_slots = 2};
  double before = std::numeric_limits<double>::infinity();
  for (const double limit : {9e3, 12e3, 20e3, 40e3, 100e3}) {
    question.memory_limit = limit;
    const PipelinePlan best = plan_pipeline(question).value().best();
    EXPECT_LE(best.most_memory(), limit);
    EXPECT_LE(best.seconds, before);
    before = best.seconds;
  }
  before = std::numeric_limits<double>::infinity();
  for (const double rate : {1e1, 1e2, 1e3, 1e4, 1e6}) {
    question.bytes_per_second = rate;
    const double seconds = plan_pipeline(question).value().best().seconds;
    EXPECT_LE(seconds, before);
    before = seconds;
  }
}

TEST(PipelinePlan, OfAModelThatFitsNowhereNamesTheLeastMemoryThatWouldDo) {
  PlanQuestion question{.layers = equal_layers(2),
                        .profiled_batch = 8,
                        .batch = 8,
                        .ranks = 2,
                        .bytes_per_second = kFast,
                        .memory_limit = 100};
  EXPECT_THAT(refusal_of(question),
              AllOf(HasSubstr("nothing fits"), HasSubstr("pp=2"), HasSubstr("--memory-limit")));
  question.memory_limit = 4000;  // half of the model fits, and the whole does not
  const PlanReport report = plan_pipeline(question).value();
  EXPECT_FALSE(report.data_parallel.fits);
  EXPECT_EQ(report.best().layout(), "pp=2");
}

TEST(PipelinePlan, OfOneRankIsTheWholeModel) {
  const PlanReport report =
      plan_pipeline({.layers = equal_layers(3), .profiled_batch = 4, .batch = 4, .ranks = 1})
          .value();
  EXPECT_THAT(report.pipelines, IsEmpty());
  EXPECT_EQ(report.best().layout(), "dp=1");
  EXPECT_DOUBLE_EQ(report.best().seconds, 9);
  EXPECT_DOUBLE_EQ(report.best().idle_share, 0);
}

TEST(PipelinePlan, UnderPipedreamHasTheReplicasOfThePartitioner) {
  const std::vector<double> outputs = {60, 30, 10, 1, 0}, weights = {1, 1, 1, 1, 400};
  std::vector<LayerCost> layers;
  for (std::size_t i = 0; i < 5; ++i)
    layers.push_back({.forward = i < 4 ? 4. : .4,
                      .backward = i < 4 ? 6. : .6,
                      .output_bytes = outputs[i],
                      .weight_bytes = weights[i]});
  const PlanReport report = plan_pipeline({.layers = layers,
                                           .profiled_batch = 16,
                                           .batch = 16,
                                           .ranks = 16,
                                           .bytes_per_second = 40,
                                           .form = schedule_of("pipedream")})
                                .value();
  const PipelinePlan& plan = report.best();
  EXPECT_EQ(plan.layout(), "0-3x15,4x1");
  EXPECT_EQ(plan.ranks(), 16);
  EXPECT_EQ(plan.stages[0].live_micro_batches, 2);
  EXPECT_EQ(plan.stages[0].weight_versions, 3);
  EXPECT_EQ(plan.stages[1].weight_versions, 1);
  EXPECT_DOUBLE_EQ(plan.stages[0].memory.versions, 2 * 4);
}

TEST(PipelinePlan, LargeBatchesFavourReplicasUnderPipedream) {
  PlanQuestion question{
      .layers = std::vector<LayerCost>(
          2, {.forward = .4, .backward = .6, .output_bytes = .5, .weight_bytes = 3}),
      .ranks = 2,
      .bytes_per_second = .5,
      .form = schedule_of("pipedream")};
  const auto layout_of = [&](int batch) {
    question.batch = batch;
    return plan_pipeline(question).value().pipelines.at(0).layout();
  };
  // For a mini-batch gradients take 12 s over two ranks, and activations 2 s a sample.
  EXPECT_EQ(layout_of(2), "pp=2");
  EXPECT_EQ(layout_of(10), "0-1x2");
}

TEST(PipelinePlan, NumbersOfStagesThatCannotBeAreLeftOutWithTheReason) {
  PlanQuestion question{.layers = equal_layers(3),
                        .profiled_batch = 6,
                        .batch = 6,
                        .ranks = 6,
                        .bytes_per_second = kFast};
  const PlanReport report = plan_pipeline(question).value();
  ASSERT_EQ(report.left_out.size(), 1u);
  EXPECT_THAT(report.left_out[0], AllOf(HasSubstr("pp=6"), HasSubstr("6 stages for 3 layers")));
  question.form = schedule_of("pipedream_2bw");
  question.ranks = 3;
  EXPECT_EQ(plan_pipeline(question).value().pipelines.at(0).micro_batches, 2) << "p - 1 at least";
}

TEST(PipelinePlan, MicroBatchesThatNoPipelineTakesAreRefusedWithTheNextThatOneDoes) {
  PlanQuestion question{.layers = equal_layers(3),
                        .profiled_batch = 6,
                        .batch = 6,
                        .ranks = 3,
                        .bytes_per_second = kFast,
                        .form = schedule_of("pipedream_2bw"),
                        .micro_batches = 1};
  EXPECT_THAT(refusal_of(question), AllOf(HasSubstr("pp=3"), HasSubstr("give 2")));
  question.micro_batches = 7;
  EXPECT_THAT(refusal_of(question), HasSubstr("give 6 or fewer"));
  question.form = schedule_of("interleaved:chunks=1");
  question.micro_batches = 4;
  EXPECT_THAT(refusal_of(question), AllOf(HasSubstr("multiple of 3"), HasSubstr("give 6")));
  question.form = schedule_of("pipedream");
  EXPECT_THAT(refusal_of(question), AllOf(HasSubstr("whole batches"), HasSubstr("pipedream_2bw")));
}

TEST(PipelinePlan, TakesAPartitionThatIsGivenAndRefusesOneForOtherRanks) {
  PlanQuestion question{.layers = equal_layers(4),
                        .profiled_batch = 8,
                        .batch = 8,
                        .ranks = 4,
                        .bytes_per_second = kFast};
  const auto given = [&](const char* text) -> PlanQuestion& {
    question.partition = StagePartition::parse(text, 4).value();
    return question;
  };
  EXPECT_EQ(plan_pipeline(given("0-2,3")).value().pipelines.at(0).layout(), "pp=2,dp=2");
  EXPECT_THAT(refusal_of(given("0-2x3,3")), HasSubstr("pipedream alone"));
  EXPECT_THAT(refusal_of(given("0,1,2-3")),
              AllOf(HasSubstr("4 ranks"), HasSubstr("multiple of 3")));
  question.form = schedule_of("pipedream");
  EXPECT_EQ(plan_pipeline(given("0-2x3,3")).value().pipelines.at(0).layout(), "0-2x3,3x1");
  EXPECT_THAT(refusal_of(given("0-2x2,3")), AllOf(HasSubstr("for 3 ranks"), HasSubstr("sum to 4")));
  question.form = schedule_of("interleaved:chunks=2");
  EXPECT_THAT(refusal_of(given("0,1,2-3")), HasSubstr("multiple of 2 parts"));
}

TEST(PipelinePlan, ARecomputedForwardPassIsTimeAndSavesMemory) {
  PlanQuestion question{.layers = equal_layers(4),
                        .profiled_batch = 8,
                        .batch = 8,
                        .ranks = 2,
                        .bytes_per_second = kFast,
                        .micro_batches = 4};
  const PipelinePlan kept = plan_named(plan_pipeline(question).value(), "pp=2");
  question.recompute = Recompute::parse("auto").value();
  const PipelinePlan again = plan_named(plan_pipeline(question).value(), "pp=2");
  EXPECT_NEAR(again.seconds, kept.seconds * 4 / 3, 1e-9);
  EXPECT_LT(again.stages[0].memory.activations, kept.stages[0].memory.activations);
  EXPECT_GE(again.stages[0].recompute.every, 1);
}

TEST(PipelinePlan, WrongQuestionsAreNamed) {
  EXPECT_THAT(refusal_of({}), HasSubstr("no layers"));
  EXPECT_THAT(refusal_of({.layers = equal_layers(2), .batch = 1, .ranks = 2}),
              HasSubstr("1 samples for 2 ranks"));
  EXPECT_THAT(refusal_of({.layers = equal_layers(2), .bytes_per_second = 0}),
              HasSubstr("0 bytes a second"));
}

}  // namespace
}  // namespace paceline::plan
