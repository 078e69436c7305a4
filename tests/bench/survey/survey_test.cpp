// Also covers bench/survey/survey_check.h.
#include "bench/survey/survey.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "bench/survey/survey_check.h"

namespace paceline::survey {
namespace {

using namespace schedule;

constexpr int kFewSimulations = 5;  // of General: what is tested holds for its starting plans too

const std::vector<SurveyForecast>& simulated() {
  static const auto all = simulate_survey(survey_table(), survey_constants(), kFewSimulations);
  return all;
}

TEST(Survey, HasAForecastForEveryNetworkModelMethodAndNumberOfWorkers) {
  std::set<std::string> seen;
  for (const SurveyForecast& one : simulated()) {
    EXPECT_GT(one.samples_per_second, 0);
    seen.insert(one.network + one.model + one.method + std::to_string(one.workers));
  }
  EXPECT_EQ(simulated().size(), 3u * 3 * 8 * 4);
  EXPECT_EQ(seen.size(), simulated().size());
}

TEST(Survey, TheRowsThatCalibrateItAreMetExactly) {
  for (const SurveyRow& row : survey_table()) {
    if (!row.method.starts_with("BSP-")) continue;
    for (std::size_t i = 0; i < kSurveyWorkers.size(); ++i) {
      EXPECT_NEAR(forecast_of(simulated(), row.network, row.model, row.method, kSurveyWorkers[i]),
                  row.samples_per_second[i], 2e-3 * row.samples_per_second[i])
          << row.network << " " << row.model << " " << row.method;
    }
  }
}

TEST(Survey, OnlyBspRowsOfTheCalibrationMatter) {
  SurveyTable bsp = survey_table(), poorer = survey_table();
  std::erase_if(bsp, [](const SurveyRow& row) { return !row.method.starts_with("BSP-"); });
  const auto forecasts = simulate_survey(bsp, survey_constants(), 0);
  const auto all = simulate_survey(poorer, survey_constants(), 0);
  ASSERT_EQ(forecasts.size(), all.size());
  for (const SurveyForecast& one : all) {
    EXPECT_EQ(forecast_of(forecasts, one.network, one.model, one.method, one.workers),
              one.samples_per_second);
  }
}

TEST(Survey, ErrorsStayWithinTheAcceptanceWithAndWithoutTheCellsInDoubt) {
  const SurveyTable table = survey_table();
  const SurveyError accepted = survey_error(table, simulated());
  EXPECT_EQ(accepted.cells, 102);
  EXPECT_LE(accepted.mean, .06);
  EXPECT_LE(accepted.worst, .24) << accepted.worst_cell;
  const SurveyError all = survey_error(table, simulated(), {.accepted_only = false});
  EXPECT_EQ(all.cells, 120);
  EXPECT_LE(all.mean, .06);
  EXPECT_LE(all.worst, .24) << all.worst_cell;
}

// The thresholds guard against regressions. It counts seconds, of WFBP and
// MG-WFBP, here of the models of which we have the rows.
TEST(Survey, WithTheConstantsOfD8TheRegressionThresholdsHold) {
  const SurveyTable table = survey_table();
  const auto forecasts = simulate_survey(table, constants_of_d8(), 0);
  double sum = 0, worst = 0;
  int cells = 0;
  for (const SurveyRow& row : table) {
    if (row.method != "WFBP-A2A" && row.method != "MG-WFBP" && row.method != "WFBP-PS") continue;
    for (std::size_t i = 0; i < kSurveyWorkers.size(); ++i) {
      const double forecast =
          forecast_of(forecasts, row.network, row.model, row.method, kSurveyWorkers[i]);
      const double off = std::abs(row.samples_per_second[i] / forecast - 1);
      sum += off;
      worst = std::max(worst, off);
      ++cells;
    }
  }
  EXPECT_EQ(cells, 72);
  EXPECT_LE(sum / cells, .06);
  EXPECT_LE(worst, .22);
  EXPECT_GE(survey_orders(table, forecasts).repeated, 72);
}

TEST(Survey, The74OrdersOfThePrintedTableAreRepeated) {
  const SurveyOrders orders = survey_orders(survey_table(), simulated());
  EXPECT_EQ(orders.cells, 74);
  EXPECT_GE(orders.repeated, 72) << ::testing::PrintToString(orders.missed);
}

TEST(Survey, FusionOn32GpusSpeedsUpAsPublishedWithin8PerCent) {
  const std::tuple<const char*, double, double> published[] = {
      {"ResNet-50", 253.1, 31.1}, {"BERT-Base", 212.8, 23.2}, {"BERT-Large", 49, 8.17}};
  for (const auto& [model, single, speed_up] : published) {
    const double forecast = forecast_of(simulated(), "100GbIB", model, "MG-WFBP", 32) / single;
    EXPECT_NEAR(forecast / speed_up, 1, .08) << model;
  }
}

TEST(Survey, GeneralIsAheadOfEveryMethodInEveryCell) {
  for (const SurveyForecast& one : simulated()) {
    // Rows of PS that were probably measured over a slower network stand apart.
    if (one.method == "WFBP-PS" || one.method == "BSP-PS") continue;
    EXPECT_GE(forecast_of(simulated(), one.network, one.model, "General", one.workers),
              one.samples_per_second * (1 - 1e-9))
        << one.method << " of " << one.model << " on " << one.network << " " << one.workers;
  }
}

TEST(Survey, NoMethodIsFasterThanItsWorkersCompute) {
  const SurveyTable table = survey_table();
  for (const SurveyForecast& one : simulated()) {
    const SurveyRow* row = find(table, one.network, one.model, "BSP-A2A");
    EXPECT_LT(one.samples_per_second, row->single * one.workers);
  }
}

TEST(Survey, RowsThatRepeatThoseOfASlowerNetworkAreFound) {
  const SurveyTable table = survey_table();
  int found = 0;
  for (const std::string_view network : kSurveyNetworks) {
    for (const char* model : {"ResNet-50", "BERT-Base", "BERT-Large"}) {
      for (const int workers : kSurveyWorkers) {
        if (!is_suspicious(table, network, model, workers)) continue;
        ++found;
        EXPECT_EQ(network, "100GbE");
        EXPECT_STRNE(model, "BERT-Base");
        EXPECT_GT(workers, 4);
      }
    }
  }
  EXPECT_EQ(found, 6);
}

TEST(Survey, ByteschedulerByThePaperIsFasterThanAsItWasRun) {
  SurveyConstants paper = survey_constants();
  paper.bytescheduler_by_the_paper = true;
  const SurveyTable table = survey_table();
  const auto forecasts = simulate_survey(table, paper, 0);
  for (const char* method : {"ByteScheduler-PS", "ByteScheduler-A2A"}) {
    for (const SurveyForecast& one : simulated()) {
      if (one.method != method) continue;
      EXPECT_GE(forecast_of(forecasts, one.network, one.model, method, one.workers),
                one.samples_per_second * (1 - 1e-9));
    }
    EXPECT_GT(survey_error(table, forecasts, {.method = method}).mean,
              survey_error(table, simulated(), {.method = method}).mean);
  }
}

TEST(Survey, ACalibrationWithoutTheRowsItNeedsIsTold) {
  const auto what = [](const SurveyTable& table) -> std::string {
    try {
      simulate_survey(table, survey_constants(), 0);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  SurveyTable lacking = survey_table();
  std::erase_if(lacking, [](const SurveyRow& row) { return row.method == "BSP-PS"; });
  EXPECT_THAT(what(lacking), ::testing::HasSubstr("no row BSP-PS of ResNet-50 on 100GbIB"));
  SurveyTable fast = survey_table();
  fast[0].samples_per_second[0] = 1e6;
  EXPECT_THAT(what(fast), ::testing::HasSubstr("faster with 4 workers than one GPU computes"));
  SurveyTable unknown = survey_table();
  unknown.resize(1);
  unknown[0].model = "VGG";
  EXPECT_THAT(what(unknown), ::testing::HasSubstr("there is no model \"VGG\""));
}

}  // namespace
}  // namespace paceline::survey
