#include "paceline/app/cli/choice_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

// Three algorithms whose blocks take so many microseconds; the model likes the first one best.
ChoiceCell cell(std::vector<std::vector<double>> block_us) {
  const std::vector<std::string_view> names = {"direct", "binomial", "ring"};
  std::vector<Forecast> forecasts;
  measure::Comparison comparison;
  for (std::size_t i = 0; i < block_us.size(); ++i) {
    forecasts.push_back({names[i], 1 << 20, static_cast<double>(i + 1) * 1e-6});
    measure::Measurement one{.candidate = {.algorithm = std::string(names[i]), .bytes = 4096}};
    for (const double us : block_us[i]) one.block_medians.push_back(us * 1e-6);
    comparison.candidates.push_back(std::move(one));
  }
  return cell_of(forecasts, comparison, 4, "shm");
}

TEST(ChoiceReport, AChoiceThatIsTheFastestHasNoRegret) {
  const ChoiceCell best = cell({{10, 11, 12}, {20, 20, 20}});
  EXPECT_EQ(best.chosen().algorithm, "direct");
  EXPECT_EQ(best.fastest().algorithm, "direct");
  EXPECT_DOUBLE_EQ(best.regret(), 0);
  EXPECT_DOUBLE_EQ(best.candidates[0].model_us, 1);
  EXPECT_DOUBLE_EQ(best.candidates[0].measured_us, 11);
}

TEST(ChoiceReport, RegretIsTakenBlockByBlock) {
  // The machine is ten times slower in the second block, for both.
  const ChoiceCell moody = cell({{12, 120, 12}, {10, 100, 10}});
  EXPECT_EQ(moody.fastest().algorithm, "binomial");
  EXPECT_NEAR(moody.regret(), 0.2, 1e-9);
}

TEST(ChoiceReport, TheShareCountsCellsUpToTheBound) {
  const std::vector<ChoiceCell> cells = {cell({{10}, {10}}), cell({{10.9}, {10}}),
                                         cell({{11.1}, {10}}), cell({{30}, {10}})};
  EXPECT_DOUBLE_EQ(share_within(cells, 0.1), 0.5);
  EXPECT_DOUBLE_EQ(share_within(cells, 5), 1);
  EXPECT_DOUBLE_EQ(share_within({}, 0.1), 1);
}

TEST(ChoiceReport, TheTableMarksTheChosenOne) {
  const std::string lines = choice_lines(cell({{12}, {10}, {40}}));
  EXPECT_THAT(lines, HasSubstr("4 KiB  direct"));
  EXPECT_THAT(lines, HasSubstr("1.20  chosen\n"));
  EXPECT_THAT(lines, HasSubstr("4.00\n"));
}

TEST(ChoiceReport, TheJsonTellsEveryCandidate) {
  const auto json = nlohmann::json::parse(choice_json({cell({{12}, {10}, {40}})}));
  EXPECT_EQ(json.at("within_10_percent"), 0);
  const auto& one = json.at("cells").at(0);
  EXPECT_EQ(one.at("operation"), "all_reduce");
  EXPECT_EQ(one.at("bytes"), 4096);
  EXPECT_EQ(one.at("chosen"), "direct");
  EXPECT_EQ(one.at("fastest"), "binomial");
  EXPECT_NEAR(one.at("regret"), 0.2, 1e-9);
  EXPECT_EQ(one.at("candidates").size(), 3U);
  EXPECT_EQ(one.at("candidates").at(2).at("algorithm"), "ring");
}

}  // namespace
}  // namespace paceline::cli
