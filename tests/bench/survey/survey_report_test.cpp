// Also covers bench/survey/survey_page.h and paceline/app/cli/shared/text.h.
#include "bench/survey/survey_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/survey/survey_page.h"

namespace paceline::survey {
namespace {

using ::testing::HasSubstr;

const SurveyRun& run() {
  static const SurveyRun all = [] {
    SurveyRun made{.measured = survey_table(), .simulated = {}};
    made.simulated = simulate_survey(made.measured, survey_constants(), 0);
    return made;
  }();
  return all;
}

TEST(SurveyReport, TheJsonHasARowForEverySimulatedThroughput) {
  const auto rows = nlohmann::json::parse(survey_json(run()));
  ASSERT_EQ(rows.size(), 288u);
  for (const auto& row : rows) {
    EXPECT_EQ(row.size(), 5u);
    EXPECT_GT(row.at("samples_per_second").get<double>(), 0);
    for (const char* key : {"network", "model", "method"}) EXPECT_TRUE(row.at(key).is_string());
    EXPECT_TRUE(row.at("workers").is_number_integer());
  }
}

TEST(SurveyReport, AFigureHasTheSevenAndGeneralWithTheErrorWhereSomethingWasMeasured) {
  const auto figures = survey_figures(run());
  ASSERT_EQ(figures.size(), 9u);
  for (const SurveyFigure& figure : figures) {
    ASSERT_EQ(figure.lines.size(), 8u);
    EXPECT_EQ(figure.lines.back().method, "General");
    EXPECT_EQ(figure.lines.back().cells[0].error(), "");
    EXPECT_THAT(figure.lines[1].cells[3].error(), HasSubstr("0.0"));
  }
}

TEST(SurveyReport, TheTextTellsClaimsTablesErrorsAndOrders) {
  const std::string text = survey_text(run());
  for (const char* part :
       {"WFBP-A2A            all-to-all    yes", "best speed-up of ResNet-50 on 32 GPUs", "31.6x",
        "441 ms", "BERT-Large, 10GbE", "Error of the rows that are not BSP's: 102 cells, mean",
        "Orders of methods that differ by 3 % or more: 74 of 74 repeated"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(SurveyReport, WithBspRowsAloneThereIsNothingToCompareWith) {
  SurveyRun alone = run();
  std::erase_if(alone.measured, [](const auto& row) { return !row.method.starts_with("BSP-"); });
  EXPECT_THAT(survey_text(alone), HasSubstr("nothing measured to compare with"));
}

TEST(SurveyPage, HasTwoPlotsAndATableForEachFigure) {
  const std::string page = survey_page(run());
  std::size_t plots = 0, tables = 0;
  for (std::size_t at = 0; (at = page.find("<svg", at)) != std::string::npos; ++at) ++plots;
  for (std::size_t at = 0; (at = page.find("<table", at)) != std::string::npos; ++at) ++tables;
  EXPECT_EQ(plots, 18u);
  EXPECT_EQ(tables, 10u);
  EXPECT_THAT(page, HasSubstr("BERT-Base, 100GbE: simulated"));
}

}  // namespace
}  // namespace paceline::survey
