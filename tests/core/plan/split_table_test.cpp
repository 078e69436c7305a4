#include "paceline/core/plan/split_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

namespace paceline::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kFloat = 4, kBatch = 128;

// Parameters and outputs of a sample, in floats; times are all equal.
struct Sizes {
  double parameters, outputs;
};

std::vector<LayerCost> layers_of(const std::vector<Sizes>& sizes) {
  std::vector<LayerCost> layers;
  for (const auto& [parameters, outputs] : sizes)
    layers.push_back({.forward = 1,
                      .backward = 2,
                      .output_bytes = outputs * kFloat * kBatch,
                      .weight_bytes = parameters * kFloat});
  return layers;
}

// The models of tests/programs/fashion_mnist, layer by layer.
std::vector<LayerCost> mlp() {
  return layers_of({{0, 784},
                    {784 * 1024 + 1024, 1024},
                    {0, 1024},
                    {1024 * 1024 + 1024, 1024},
                    {0, 1024},
                    {1024 * 10 + 10, 10}});
}

std::vector<LayerCost> cnn() {
  return layers_of({{1 * 32 * 25 + 32, 32 * 14 * 14},
                    {0, 32 * 14 * 14},
                    {32 * 64 * 9 + 64, 64 * 14 * 14},
                    {0, 64 * 14 * 14},
                    {0, 64 * 7 * 7},
                    {0, 64 * 7 * 7},
                    {3136 * 64 + 64, 64},
                    {0, 64},
                    {64 * 10 + 10, 10}});
}

SplitTable table_of(const std::vector<LayerCost>& layers, const char* partition, int ranks = 2) {
  const StagePartition cut =
      StagePartition::parse(partition, static_cast<int>(layers.size())).value();
  return split_table({.layers = layers,
                      .profiled_batch = kBatch,
                      .batch = 128,
                      .ranks = ranks,
                      .partition = cut})
      .value();
}

TEST(SplitTable, BytesOfTheExamplesModelsOnTwoDevicesAreExact) {
  const SplitTable dense = table_of(mlp(), "0-2,3-5");  // the second stage begins with a Linear
  EXPECT_EQ(dense.rows[1].traffic_bytes, 7'454'760);
  EXPECT_EQ(dense.rows[2].traffic_bytes, 1'048'576);
  EXPECT_EQ(fmt::format("{:.1f}", dense.crossover), "910.0");
  const SplitTable convolutional = table_of(cnn(), "0-5,6-8");  // cut before the first Linear
  EXPECT_EQ(convolutional.rows[1].traffic_bytes, 882'984);
  EXPECT_EQ(convolutional.rows[2].traffic_bytes, 3'211'264);
  EXPECT_EQ(fmt::format("{:.1f}", convolutional.crossover), "35.2");
}

TEST(SplitTable, DataParallelismSendsLessAboveTheCrossoverAlone) {
  for (const auto& layers : {mlp(), cnn()}) {
    const double weights = weights_of(layers);
    for (const int ranks : {2, 4, 8}) {
      const double cut = layers[2].output_bytes / kBatch;
      const double crossover = crossover_batch(weights, ranks, cut);
      for (const double batch : {std::floor(crossover), std::floor(crossover) + 1})
        EXPECT_EQ(data_traffic(weights, ranks) < cut_traffic(cut, batch), batch > crossover);
    }
  }
  EXPECT_EQ(crossover_batch(8, 2, 0), std::numeric_limits<double>::infinity());
}

TEST(SplitTable, RowsHaveTheSymbolsOfTheTable) {
  const auto layers = layers_of({{10, 4}, {10, 4}, {10, 4}, {10, 4}});
  const SplitTable table = table_of(layers, "0,1,2,3", 4);
  const auto& [none, data, model] = std::tie(table.rows[0], table.rows[1], table.rows[2]);
  EXPECT_EQ(none.samples, 128);
  EXPECT_EQ(data.samples, 128 / 4);
  EXPECT_EQ(model.samples, 128);
  EXPECT_EQ(none.traffic_bytes, 0);
  EXPECT_EQ(data.storage_bytes, 4 * none.storage_bytes);
  EXPECT_EQ(model.storage_bytes, none.storage_bytes);
  EXPECT_EQ(data.limit, 128);
  EXPECT_EQ(model.limit, 4);
  EXPECT_EQ(model.balance, 1) << "equal layers";
  EXPECT_DOUBLE_EQ(table_of(layers, "0-2,3").rows[2].balance, 1.5) << "3 of 4 layers, of 2 a mean";
}

TEST(SplitTable, LabelsSayWhoRunsWhatOnWhichData) {
  EXPECT_EQ(name_of(label_of(1, 1)), "SPSD");
  EXPECT_EQ(name_of(label_of(4, 1)), "SPMD");
  EXPECT_EQ(name_of(label_of(1, 4)), "MPSD");
  EXPECT_EQ(name_of(label_of(2, 2)), "MPMD");
}

TEST(SplitTable, TextHasARowForEachSplitAndTheCrossover) {
  EXPECT_THAT(text_of(table_of(mlp(), "0-2,3-5")),
              AllOf(HasSubstr("none    SPSD"), HasSubstr("dp=2    SPMD"), HasSubstr("pp=2    MPSD"),
                    HasSubstr("7454760"), HasSubstr("1048576"), HasSubstr("6 layers"),
                    HasSubstr("a batch of 910.0")));
}

TEST(SplitTable, WhatCannotBeComparedIsRefused) {
  const auto layers = mlp();
  const auto refusal = [&](const char* partition, int batch, int ranks) {
    const auto table = split_table({.layers = layers,
                                    .batch = batch,
                                    .ranks = ranks,
                                    .partition = StagePartition::parse(partition, 6).value()});
    return table ? std::string("accepted") : table.error().what;
  };
  EXPECT_THAT(refusal("0-2x2,3-5", 128, 2), HasSubstr("one replica a stage"));
  EXPECT_THAT(refusal("0-2,3-5", 1, 2), HasSubstr("1 samples for 2 ranks"));
  EXPECT_FALSE(split_table({.layers = layers, .batch = 8}).has_value()) << "no cut at all";
}

}  // namespace
}  // namespace paceline::plan
