#include "paceline/core/plan/rank_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/plan/pipeline_form.h"

namespace paceline::plan {
namespace {

// 7.5 billion parameters of float32, as in the ZeRO paper.
const std::vector<LayerCost> kLarge(10, {.weight_bytes = 3e9});

TEST(RankMemory, OfAdamInSixteenBitsIsThePublishedOneForEachZeroStage) {
  // GB on each of 64 ranks: 120, 31.4, 16.6 and 1.9.
  const std::array exact = {16.0, 4 + 12 / 64., 2 + 14 / 64., 16 / 64.};
  for (int stage = 0; stage <= 3; ++stage) {
    const RankMemory memory = rank_memory({.layers = kLarge,
                                           .optimizer_slots = 2,
                                           .has_masters = true,
                                           .zero_stage = stage,
                                           .data_ranks = 64});
    EXPECT_DOUBLE_EQ(memory.total() - memory.buckets,
                     7.5e9 * exact[static_cast<std::size_t>(stage)]);
    EXPECT_EQ(memory.buckets, 26 * 1024 * 1024);
  }
}

TEST(RankMemory, OfFloat32IsWeightsGradientsAndTheSlotsOfTheOptimizer) {
  const std::vector<LayerCost> layers = {{.weight_bytes = 400, .saved_bytes = 30},
                                         {.weight_bytes = 200, .saved_bytes = 10}};
  for (const double slots : {0., 1., 2.}) {
    const RankMemory alone = rank_memory({.layers = layers, .optimizer_slots = slots});
    EXPECT_EQ(alone.total(), 600 * (2 + slots) + 40);
    EXPECT_EQ(alone.buckets, 0) << "nothing travels on one rank";
    const RankMemory divided =
        rank_memory({.layers = layers, .optimizer_slots = slots, .zero_stage = 1, .data_ranks = 4});
    EXPECT_EQ(divided.total(), 600 * (2 + slots / 4) + 40 + 600);
    EXPECT_EQ(divided.buckets, 600) << "no more than the gradients are on their way";
  }
}

TEST(RankMemory, ActivationsAreTheLiveMicroBatchesOfTheSchedule) {
  const std::vector<LayerCost> layers(3, {.output_bytes = 8, .saved_bytes = 100});
  const std::vector<int> replicas(4, 1);
  // Micro-batches of a fixed batch: gpipe holds all of it in any number of them, 1F1B min(p, m)/m.
  for (const int m : {1, 2, 4, 8, 16}) {
    const auto activations = [&](const char* form) {
      const PipelineForm parsed = PipelineForm::parse(form).value();
      return rank_memory({.layers = layers,
                          .live_micro_batches = live_activations(parsed, replicas, 0, m),
                          .micro_share = 1.0 / m})
          .activations;
    };
    EXPECT_DOUBLE_EQ(activations("gpipe"), 300);
    EXPECT_DOUBLE_EQ(activations("1f1b"), 300.0 * std::min(4, m) / m);
  }
}

TEST(RankMemory, RecomputationKeepsInputsOfEachLiveMicroBatchAndOneSegmentInFull) {
  const std::vector<LayerCost> layers(4, {.output_bytes = 8, .saved_bytes = 100});
  const MemoryQuestion question{
      .layers = layers, .input_bytes = 8, .live_micro_batches = 3, .recompute = {1}};
  EXPECT_EQ(rank_memory(question).activations, 3 * 4 * 8 + 100);
  MemoryQuestion pairs = question;
  pairs.recompute = {2};
  EXPECT_EQ(rank_memory(pairs).activations, 3 * 2 * 8 + 200);
  MemoryQuestion automatic = question;
  automatic.recompute = {Recompute::kAutomatic};
  EXPECT_EQ(rank_memory(automatic).activations, 3 * 4 * 8 + 100) << "the least of all lengths";
}

TEST(RankMemory, VersionsOfTheWeightsAreCopiesOfTheWeightsAlone) {
  const std::vector<LayerCost> layers = {{.weight_bytes = 1000}};
  const RankMemory memory =
      rank_memory({.layers = layers, .optimizer_slots = 1, .weight_versions = 4});
  EXPECT_EQ(memory.versions, 3000);
  EXPECT_EQ(memory.total(), 6000);
}

TEST(RankMemory, GradientsThatComeWhileActivationsGoTakeTheirMemory) {
  const std::vector<LayerCost> layers = {{.weight_bytes = 1000, .saved_bytes = 300}};
  MemoryQuestion question{
      .layers = layers, .live_micro_batches = 4, .is_live_before_gradients = true};
  EXPECT_EQ(rank_memory(question).total(), 1000 + 1000 + 3 * 300) << "as the first backward ends";
  question.micro_share = 10;
  EXPECT_EQ(rank_memory(question).total(), 1000 + 4 * 3000) << "as it begins";
  question.data_ranks = 2;
  EXPECT_EQ(rank_memory(question).reused, 0) << "a DataParallel's gradients stay where they are";
}

TEST(RankMemory, AMessageComesWhileAnotherGoes) {
  EXPECT_EQ(rank_memory({.micro_share = .25, .message_bytes = 400}).total(), 200);
}

TEST(RankMemory, NumbersOutOfRangeAreRefused) {
  EXPECT_THROW(rank_memory({.zero_stage = 4}), Error);
  EXPECT_THROW(rank_memory({.data_ranks = 0}), Error);
  EXPECT_THROW(rank_memory({.weight_versions = 0}), Error);
  EXPECT_THROW(rank_memory({.live_micro_batches = 0}), Error);
}

}  // namespace
}  // namespace paceline::plan
