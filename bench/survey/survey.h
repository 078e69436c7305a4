// Simulates the survey's cluster: the costs of its links follow from the measured rows of BSP
// alone; all other methods are forecast (docs/guide/simulate.md).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "bench/survey/survey_table.h"
#include "paceline/core/schedule/order/costs.h"
#include "paceline/core/schedule/order/model.h"
#include "paceline/core/schedule/simulation/simulate.h"

namespace paceline::survey {

// Constants in seconds that BSP rows cannot give; they hold for all models (docs/guide/simulate.md
// gives the source of each).
struct SurveyConstants {
  // Start-up of an all_reduce, by network and number of workers.
  std::array<std::array<double, kSurveyWorkers.size()>, kSurveyNetworks.size()> all_reduce_start;
  double server_part = 50e-6;  // start-up of a part that goes to a server
  double interference = .4;
  // True: ByteScheduler as its paper describes it, across the barrier and at no cost of its own.
  // False: as the survey's scripts ran it, with servers under a barrier, and for all_reduce by its
  // plugin, which delays the computation by `plugin` for each tensor.
  bool bytescheduler_by_the_paper = false;
  double plugin = .7e-3;
};

// The start-up of p workers on m machines of four GPUs: 50 us for the launch, 12 us a worker for
// agreeing on the next operation, and 2 ceil(lg m) messages between machines of 6.4, 21 or 95 us,
// which follow from the seed's times of 16 KiB and 1 MiB on each network.
SurveyConstants survey_constants();
// The constants from which the regression thresholds come (docs/guide/simulate.md): one start-up
// for all networks.
SurveyConstants constants_of_d8();

struct SurveyForecast {
  std::string network, model, method;  // the seven, and "General"
  int workers = 0;
  double samples_per_second = 0;
  std::string plan = {};  // General's plan, in words
};

// Whether a row repeats that of a slower network within 2.5 % although all_reduce was faster: such
// a row was probably measured over the slower network. (BSP-PS of ResNet-50 and BERT-Large on
// 100GbE with 8 and more GPUs.)
bool is_suspicious(const SurveyTable& table, std::string_view network, std::string_view model,
                   int workers);

// The model as one GPU of the table computes it.
schedule::Model surveyed_model(const SurveyRow& row);

// The link costs that explain the BSP rows of a network, model and number of workers exactly.
// `trusted`: if BSP-PS is suspicious, the price of a byte comes from models whose row is not.
// THROWS Error (misuse) when a BSP row is missing, or faster than a single GPU allows.
schedule::LinkCosts calibrated_links(const SurveyTable& table, const SurveyConstants& constants,
                                     std::string_view network, std::string_view model, int workers,
                                     bool trusted);

// Forecasts every method and General, for every network, model and number of workers of the table.
std::vector<SurveyForecast> simulate_survey(const SurveyTable& table,
                                            const SurveyConstants& constants,
                                            int general_simulations = 100);

}  // namespace paceline::survey
