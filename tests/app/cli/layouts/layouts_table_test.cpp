#include "paceline/app/cli/layouts/layouts_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kBatch = 128;

struct LayerSize {
  std::size_t parameters, outputs;  // floats; outputs of a sample
};

schedule::Model recorded_model(const std::vector<LayerSize>& sizes) {
  constexpr std::size_t kFloat = 4;
  schedule::Model model;
  model.batch = kBatch;
  for (const auto& [parameters, outputs] : sizes) {
    model.layers.push_back({.forward = 0.001,
                            .backward = 0.002,
                            .output_bytes = outputs * kFloat * kBatch,
                            .weight_bytes = parameters * kFloat});
    if (parameters > 0) model.tensors.push_back({.bytes = parameters * kFloat});
  }
  return model;
}

// The models of tests/programs/fashion_mnist, layer by layer.
schedule::Model recorded_mlp() {
  return recorded_model({{0, 784},
                         {784 * 1024 + 1024, 1024},
                         {0, 1024},
                         {1024 * 1024 + 1024, 1024},
                         {0, 1024},
                         {1024 * 10 + 10, 10}});
}
schedule::Model recorded_cnn() {
  return recorded_model({{1 * 32 * 25 + 32, 32 * 14 * 14},
                         {0, 32 * 14 * 14},
                         {32 * 64 * 9 + 64, 64 * 14 * 14},
                         {0, 64 * 14 * 14},
                         {0, 64 * 7 * 7},
                         {0, 64 * 7 * 7},
                         {3136 * 64 + 64, 64},
                         {0, 64},
                         {64 * 10 + 10, 10}});
}

LayoutsTable compared(const ModelFacts& facts, const std::string& layouts,
                      const std::vector<MeasuredRun>& runs = std::vector<MeasuredRun>(4)) {
  return layouts_table(facts, parse_layouts("--layouts", layouts), runs);
}

TEST(LayoutsTable, BytesAndCrossoverOfTheExamplesModelsAreExact) {
  const LayoutsTable mlp = compared(facts_of(recorded_mlp()), "none,dp=2,pp=2,tp=2");
  EXPECT_EQ(mlp.rows[1].traffic_bytes, 7'454'760);
  EXPECT_EQ(mlp.rows[2].traffic_bytes, 1'048'576);
  EXPECT_EQ(fmt::format("{:.1f}", mlp.crossover.value()), "910.0");
  ModelFacts facts = facts_of(recorded_cnn());
  facts.partition = "0-5,6-8";
  const LayoutsTable cnn = compared(facts, "dp=2,pp=2");
  EXPECT_EQ(cnn.rows[0].traffic_bytes, 882'984);
  EXPECT_EQ(cnn.rows[1].traffic_bytes, 3'211'264);
  EXPECT_EQ(fmt::format("{:.1f}", cnn.crossover.value()), "35.2");
}

TEST(LayoutsTable, RowsHaveTheSymbolsOfTheTable) {
  ModelFacts facts = facts_of(recorded_mlp());
  facts.partition = "0-3,4-5";
  const LayoutsTable table = compared(facts, "none,dp=2,pp=2,tp=2");
  const auto& [none, data, stages, tensors] =
      std::tie(table.rows[0], table.rows[1], table.rows[2], table.rows[3]);
  EXPECT_EQ(none.samples, kBatch);
  EXPECT_EQ(data.samples, kBatch / 2);
  EXPECT_EQ(stages.samples, kBatch);
  EXPECT_EQ(none.traffic_bytes, 0);
  EXPECT_FALSE(tensors.traffic_bytes.has_value()) << "it depends on how layers are split";
  EXPECT_EQ(none.storage_bytes, 7'454'760);
  EXPECT_EQ(data.storage_bytes, 2 * 7'454'760);
  EXPECT_EQ(stages.storage_bytes, none.storage_bytes);
  EXPECT_EQ(data.limit, kBatch);
  EXPECT_EQ(stages.limit, 6);
  EXPECT_DOUBLE_EQ(stages.balance.value(), 4.0 / 3) << "4 of 6 equal layers, of 3 a mean";
}

TEST(LayoutsTable, AModelWithoutLayersHasTheFormulasOfItsWeightsAlone) {
  schedule::Model model = recorded_mlp();
  model.layers.clear();
  const LayoutsTable table =
      compared(facts_of(model), "dp=2,pp=2", {{.traffic_bytes = 1000}, {.traffic_bytes = 500}});
  EXPECT_EQ(table.rows[0].traffic_bytes, 7'454'760);
  EXPECT_FALSE(table.rows[1].traffic_bytes.has_value());
  EXPECT_FALSE(table.rows[1].balance.has_value());
  EXPECT_FALSE(table.crossover.has_value());
  EXPECT_EQ(table.measured_crossover, 2 * kBatch);
  EXPECT_THAT(layouts_text(table), HasSubstr("at a batch of 256.0 as measured; at 128 pp=2 sends "
                                             "less"));
}

TEST(LayoutsTable, TextAndJsonHaveEachFormulaBesideItsMeasurement) {
  const MeasuredRun stages{.samples_per_second = 800,
                           .traffic_bytes = 1'048'577,
                           .storage_bytes = 7'454'761,
                           .balance = 1.25};
  const LayoutsTable table =
      compared(facts_of(recorded_mlp()), "dp=2,pp=2", {{.samples_per_second = 700}, stages});
  const std::string text = layouts_text(table);
  EXPECT_THAT(text, ContainsRegex("pp=2 +MPSD +128 +1048576 +1048577 +7454760 +7454761 +1.00 +1.25 "
                                  "+800.0  6 layers\n"));
  EXPECT_THAT(text, ContainsRegex("dp=2 +SPMD +64 +7454760 +- "));
  EXPECT_THAT(text, HasSubstr("at a batch of 910.0 by the formulas; at 128 pp=2 sends less\n"));
  const auto json = nlohmann::json::parse(layouts_json(table));
  EXPECT_EQ(json.at("batch"), kBatch);
  EXPECT_TRUE(json.at("crossover_batch").at("measured").is_null());
  const auto& row = json.at("layouts").at(1);
  EXPECT_EQ(row.at("label"), "MPSD");
  EXPECT_EQ(row.at("traffic_bytes").at("formula"), 1'048'576);
  EXPECT_EQ(row.at("traffic_bytes").at("measured"), 1'048'577);
  EXPECT_EQ(row.at("balance").at("measured"), 1.25);
  EXPECT_EQ(row.at("limited_by"), "layers");
}

TEST(LayoutsTable, NothingIsSaidOfACrossoverWithoutBothKinds) {
  EXPECT_THAT(layouts_text(compared(facts_of(recorded_mlp()), "none,dp=2,tp=2")),
              Not(HasSubstr("send as much")));
  EXPECT_THAT(layouts_text(compared({}, "dp=2,pp=2")), Not(HasSubstr("send as much")));
}

TEST(LayoutsTable, ACutThatIsNotTheProgramsIsRefused) {
  const auto refusal = [](const char* partition, const char* layouts) {
    ModelFacts facts = facts_of(recorded_mlp());
    facts.partition = partition;
    try {
      compared(facts, layouts);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal("0-2,3-5", "pp=3"), HasSubstr("0-2,3-5 has 2 stages, and pp=3 has 3"));
  EXPECT_THAT(refusal("0-2,4-5", "pp=2"), HasSubstr("0-2,4-5"));
  EXPECT_THAT(refusal("", "pp=7"), HasSubstr("7"));
}

}  // namespace
}  // namespace paceline::cli
