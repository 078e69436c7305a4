#include "paceline/core/plan/partitioner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/core/plan/all_partitions.h"
#include "tests/support/seed.h"

namespace paceline::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kTolerance = 1e-9;

// The fewest seconds, and of those that take them, the fewest stages.
void expect_best(const std::vector<LayerCost>& layers, const Machine& machine,
                 PartitionModel model) {
  const auto choice = best_partition(layers, machine, {.model = model}).value();
  double least = std::numeric_limits<double>::infinity();
  const std::vector<Candidate> all = all_candidates(layers, machine, model);
  for (const Candidate& one : all) least = std::min(least, one.seconds);
  std::size_t fewest = layers.size() + 1;
  bool is_candidate = false;
  for (const Candidate& one : all) {
    if (one.seconds > least * (1 + kTolerance)) continue;
    fewest = std::min(fewest, one.stages.size());
    is_candidate = is_candidate || one.stages == choice.partition.stages;
  }
  EXPECT_NEAR(choice.seconds, least, least * kTolerance);
  EXPECT_EQ(choice.partition.stages.size(), fewest) << choice.partition.text();
  EXPECT_TRUE(is_candidate) << choice.partition.text() << " takes other seconds than it says";
}

TEST(Partitioner, IsAsGoodAsEveryCutAndReplicationOfOneLevel) {
  SeededNumbers numbers(test::seed(32));
  for (const int layers : {1, 3, 5, 6})
    for (const int ranks : {1, 2, 4, 5})
      for (const double bandwidth : {1.0, 10.0, 100.0})
        for (int round = 0; round < 3; ++round)
          for (const auto model : {PartitionModel::paper, PartitionModel::code})
            expect_best(random_layers(numbers, layers), {{ranks, bandwidth}}, model);
}

TEST(Partitioner, IsAsGoodAsEveryNestedCutAndReplicationOfTwoAndThreeLevels) {
  SeededNumbers numbers(test::seed(33));
  const std::vector<std::vector<int>> shapes = {{1, 2}, {2, 2}, {3, 2}, {2, 3}, {2, 2, 2}};
  for (const int layers : {2, 4, 5}) {
    for (const std::vector<int>& shape : shapes) {
      for (int round = 0; round < 3; ++round) {
        Machine machine;
        for (const int units : shape) machine.push_back({units, 1 + 59 * numbers.unit()});
        std::ranges::sort(machine, std::greater(), &Level::bytes_per_second);
        for (std::size_t i = 0; i < shape.size(); ++i) machine[i].units = shape[i];
        for (const auto model : {PartitionModel::paper, PartitionModel::code})
          expect_best(random_layers(numbers, layers), machine, model);
      }
    }
  }
}

TEST(Partitioner, StraightStagesAreAsGoodAsEveryCutIntoAsMany) {
  SeededNumbers numbers(test::seed(34));
  for (int round = 0; round < 100; ++round) {
    const auto layers = random_layers(numbers, 1 + static_cast<int>(numbers.below(7)));
    const int stages = 1 + static_cast<int>(numbers.below(layers.size()));
    const double bandwidth = 1 + 3 * numbers.unit();
    const auto cut = balanced_cut(layers, stages, bandwidth).value();
    double least = std::numeric_limits<double>::infinity();
    for (const Candidate& one : all_candidates(layers, {{stages, bandwidth}}))
      if (static_cast<int>(one.stages.size()) == stages) least = std::min(least, one.seconds);
    EXPECT_NEAR(cut.seconds, least, least * kTolerance);
    EXPECT_EQ(cut.partition.size(), stages);
    EXPECT_TRUE(cut.partition.is_straight());
  }
}

TEST(Partitioner, EqualTimesMakeFewerStagesEvenWhereAnotherStageIsTheSlowest) {
  // The first two layers take 4 s as two stages and 5 s on two ranks together: the last layer,
  // which cannot be replicated, takes 10 s all the same.
  const std::vector<LayerCost> layers = {{.forward = 4, .weight_bytes = 2e12},
                                         {.forward = 4, .weight_bytes = 3e12},
                                         {.forward = 10, .weight_bytes = 1e15}};
  const auto choice = best_partition(layers, {{3, 1e12}}).value();
  EXPECT_DOUBLE_EQ(choice.seconds, 10);
  EXPECT_EQ(choice.partition.text(), "0-1x2,2x1");
}

TEST(Partitioner, FewerStagesAreNoneIfTheirCutIsSlower) {
  // Two stages take 10 s too, but what crosses their cut takes 20 s.
  const std::vector<LayerCost> layers = {{.forward = 5, .output_bytes = 1},
                                         {.forward = 5, .output_bytes = 10},
                                         {.forward = 5, .output_bytes = 1, .weight_bytes = 1e3},
                                         {.forward = 5, .weight_bytes = 1e3}};
  const auto choice = best_partition(layers, {{3, 1}}).value();
  EXPECT_DOUBLE_EQ(choice.seconds, 10);
  EXPECT_EQ(choice.partition.text(), "0,1-2,3");
}

TEST(Partitioner, OfEqualLayersOnInfiniteLinksSharesTheTimeEvenly) {
  const std::vector<LayerCost> layers(
      6, {.forward = 1, .backward = 1, .output_bytes = 5, .weight_bytes = 7});
  const auto choice = best_partition(layers, {{4, std::numeric_limits<double>::infinity()}});
  EXPECT_DOUBLE_EQ(choice.value().seconds, 6 * 2.0 / 4);
}

TEST(Partitioner, OfLayersWithoutWeightsReplicatesTheWholeModel) {
  const std::vector<LayerCost> layers(6, {.forward = 2, .output_bytes = 5});
  EXPECT_EQ(best_partition(layers, {{4, 1}}).value().partition.text(), "0-5x4");
}

TEST(Partitioner, LeavesALastLayerOfManyWeightsAndLittleWorkOnOneRank) {
  std::vector<LayerCost> layers(5, {.forward = 10, .output_bytes = 1, .weight_bytes = 1});
  layers.push_back({.forward = .1, .weight_bytes = 1e6});
  for (const int ranks : {2, 4, 8, 16, 32})
    EXPECT_EQ(best_partition(layers, {{ranks, 40}}).value().partition.stages.back().replicas, 1)
        << ranks;
  EXPECT_EQ(best_partition(layers, {{16, 40}}).value().partition.text(), "0-4x15,5x1");
}

TEST(Partitioner, ChoosesAsPipeDreamDidForVggAndResnetOnSixteen) {
  const auto model = [](std::vector<double> seconds, std::vector<double> outputs,
                        std::vector<double> weights) {
    std::vector<LayerCost> layers;
    for (std::size_t i = 0; i < seconds.size(); ++i)
      layers.push_back({.forward = seconds[i] / 3,
                        .backward = seconds[i] * 2 / 3,
                        .output_bytes = outputs[i],
                        .weight_bytes = weights[i]});
    return layers;
  };
  const auto vgg = model({10, 10, 10, 10, 1}, {60, 30, 10, 1, 0}, {1, 1, 1, 1, 400});
  EXPECT_EQ(best_partition(vgg, {{16, 40}}).value().partition.text(), "0-3x15,4x1");
  const auto resnet = model({10, 10, 10, 10, 10}, {200, 200, 200, 200, 200}, {2, 2, 2, 2, 2});
  EXPECT_EQ(best_partition(resnet, {{16, 40}}).value().partition.text(), "0-4x16");
}

TEST(Partitioner, InputOutOfRangeIsNamedWithItsRemedy) {
  const std::vector<LayerCost> layers(2, {.forward = 1});
  const auto refusal = [&](LayerCosts of, const Machine& machine, PartitionOptions options = {}) {
    const auto choice = best_partition(of, machine, options);
    return choice ? std::string("accepted") : choice.error().what;
  };
  EXPECT_THAT(refusal({}, {{2, 1}}), HasSubstr("1 or more"));
  EXPECT_THAT(refusal(layers, {}), AllOf(HasSubstr("0 levels"), HasSubstr("1 to 3")));
  EXPECT_THAT(refusal(layers, Machine(4)), HasSubstr("4 levels"));
  EXPECT_THAT(refusal(layers, {{0, 1}}), HasSubstr("0 units"));
  EXPECT_THAT(refusal(layers, {{1, 0}}), HasSubstr("more than 0"));
  EXPECT_THAT(refusal(layers, {{1, std::numeric_limits<double>::quiet_NaN()}}),
              HasSubstr("more than 0"));
  EXPECT_THAT(refusal(layers, {{3, 1}}, {.is_straight = true}),
              AllOf(HasSubstr("3 stages for 2 layers"), HasSubstr("at most 2")));
  const std::vector<LayerCost> negative = {{.forward = 1}, {.forward = -1}};
  EXPECT_THAT(refusal(negative, {{1, 1}}), HasSubstr("layer 1 takes -1"));
}

}  // namespace
}  // namespace paceline::plan
