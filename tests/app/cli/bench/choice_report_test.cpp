#include "paceline/app/cli/bench/choice_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

using Blocks = std::vector<double>;  // microseconds

// A call without a name, and up to three algorithms; the model likes the first one best.
ChoiceCell cell(const Blocks& call, const std::vector<Blocks>& algorithms,
                std::string_view chosen = "direct") {
  const std::vector<std::string_view> names = {"direct", "binomial", "ring"};
  std::vector<Forecast> forecasts;
  measure::Comparison comparison;
  const auto add = [&](std::string_view name, const Blocks& blocks) {
    measure::Measurement one{.candidate = {.algorithm = std::string(name), .bytes = 4096}};
    for (const double us : blocks) one.block_medians.push_back(us * 1e-6);
    comparison.candidates.push_back(std::move(one));
  };
  add("", call);
  for (std::size_t i = 0; i < algorithms.size(); ++i) {
    forecasts.push_back({names[i], 1 << 20, static_cast<double>(i + 1) * 1e-6});
    add(names[i], algorithms[i]);
  }
  return cell_of(chosen, forecasts, comparison, 4, "shm");
}

TEST(ChoiceReport, AChoiceThatIsTheFastestHasNoRegret) {
  const ChoiceCell best = cell({10, 11, 12}, {{10, 11, 12}, {20, 20, 20}});
  EXPECT_EQ(best.chosen, "direct");
  EXPECT_EQ(best.fastest().algorithm, "direct");
  EXPECT_DOUBLE_EQ(best.regret(), 0);
  EXPECT_DOUBLE_EQ(best.measured_us, 11);
  EXPECT_DOUBLE_EQ(best.candidates[0].model_us, 1);
  EXPECT_DOUBLE_EQ(best.candidates[0].measured_us, 11);
}

TEST(ChoiceReport, RegretIsTakenBlockByBlock) {
  // The machine is ten times slower in the second block, for both.
  const ChoiceCell moody = cell({12, 120, 12}, {{12, 120, 12}, {10, 100, 10}});
  EXPECT_EQ(moody.fastest().algorithm, "binomial");
  EXPECT_NEAR(moody.regret(), 0.2, 1e-9);
}

TEST(ChoiceReport, WhoIsTheFastestOfABlockByChanceWinsNothing) {
  // Each algorithm takes 10 us, and 8 in one block of its own.
  const ChoiceCell equal = cell({10, 10, 10}, {{8, 10, 10}, {10, 8, 10}, {10, 10, 8}});
  EXPECT_DOUBLE_EQ(equal.regret(), 0);
}

TEST(ChoiceReport, TheChosenOneMayBeNoCandidateBecauseNoCallCanNameIt) {
  const ChoiceCell links = cell({2}, {{10}, {12}}, "links");
  EXPECT_EQ(links.chosen, "links");
  EXPECT_DOUBLE_EQ(links.measured_us, 2);
  EXPECT_EQ(links.fastest().algorithm, "direct");
  EXPECT_DOUBLE_EQ(links.regret(), 0);
}

TEST(ChoiceReport, TheShareCountsCellsUpToTheBound) {
  const std::vector<ChoiceCell> cells = {cell({10}, {{10}}), cell({10.9}, {{10}}),
                                         cell({11.1}, {{10}}), cell({30}, {{10}})};
  EXPECT_DOUBLE_EQ(share_within(cells, 0.1), 0.5);
  EXPECT_DOUBLE_EQ(share_within(cells, 5), 1);
  EXPECT_DOUBLE_EQ(share_within({}, 0.1), 1);
}

TEST(ChoiceReport, TheVerdictTellsWhatMayBeNoise) {
  const ChoiceCell close = cell({10, 10, 10}, {{10, 10, 10}});
  const ChoiceCell noisy = cell({10, 20, 30}, {{10, 10, 10}});
  const ChoiceCell wrong = cell({20, 20, 30}, {{10, 10, 10}});
  EXPECT_EQ(choice_verdict({close, wrong}), "within 10 % of the fastest: 50 % of the sizes\n");
  EXPECT_EQ(choice_verdict({close, noisy, wrong, wrong}),
            "within 10 % of the fastest: 25 % of the sizes; 1 more may be, by the spread of their "
            "blocks\n");
}

TEST(ChoiceReport, TheTableBeginsWithTheChosenOneAndItsSpread) {
  const std::string lines =
      choice_lines(cell({12, 13, 14}, {{12, 12, 12}, {10, 10, 10}, {40, 40, 40}}));
  EXPECT_THAT(lines, HasSubstr("4 KiB  chosen: direct"));
  EXPECT_THAT(lines, HasSubstr("1.30  (1.20 to 1.40)\n"));
  EXPECT_THAT(lines, HasSubstr("4.00\n"));
}

TEST(ChoiceReport, TheJsonTellsEveryCandidate) {
  const auto json = nlohmann::json::parse(
      choice_json({cell({12}, {{12}, {10}, {40}}), cell({2}, {{10}}, "links")}));
  EXPECT_EQ(json.at("within_10_percent"), 0.5);
  const auto& one = json.at("cells").at(0);
  EXPECT_EQ(one.at("operation"), "all_reduce");
  EXPECT_EQ(one.at("bytes"), 4096);
  EXPECT_EQ(one.at("chosen"), "direct");
  EXPECT_DOUBLE_EQ(one.at("model_us"), 1);
  EXPECT_EQ(one.at("fastest"), "binomial");
  EXPECT_NEAR(one.at("regret"), 0.2, 1e-9);
  EXPECT_NEAR(one.at("ratio_p90"), 1.2, 1e-9);
  EXPECT_EQ(one.at("candidates").size(), 3U);
  EXPECT_EQ(one.at("candidates").at(2).at("algorithm"), "ring");
  EXPECT_EQ(json.at("cells").at(1).at("chosen"), "links");
  EXPECT_TRUE(json.at("cells").at(1).at("model_us").is_null()) << "the model has no price for it";
}

}  // namespace
}  // namespace paceline::cli
