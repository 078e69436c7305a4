#include "bench/survey/survey.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "paceline/core/base/check.h"
#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/policies/survey_methods.h"
#include "paceline/core/schedule/replay/replay_models.h"

namespace paceline::survey {

using namespace schedule;
namespace {

constexpr int kGpusInAMachine = 4;
constexpr double kRepeats = .025;

std::size_t index_of(int workers) {
  const auto found = std::ranges::find(kSurveyWorkers, workers);
  PACELINE_CHECK(found != kSurveyWorkers.end(), "the survey has no row of {} workers", workers);
  return static_cast<std::size_t>(found - kSurveyWorkers.begin());
}

double rate_of(const SurveyRow& row, int workers) {
  return row.samples_per_second[index_of(workers)];
}

double seconds_of(const SurveyRow& row, int workers) {
  return workers * row.batch / rate_of(row, workers);
}

const SurveyRow& bsp_row(const SurveyTable& table, std::string_view network, std::string_view model,
                         std::string_view method) {
  const SurveyRow* row = find(table, network, model, method);
  PACELINE_CHECK(row != nullptr,
                 "the calibration has no row {} of {} on {}: links are calibrated by the rows of "
                 "BSP-PS and BSP-A2A",
                 method, model, network);
  return *row;
}

double start_of(const SurveyConstants& constants, std::string_view network, int workers) {
  const auto found = std::ranges::find(kSurveyNetworks, network);
  PACELINE_CHECK(found != kSurveyNetworks.end(), "the survey has no network {}", network);
  return constants.all_reduce_start[static_cast<std::size_t>(found - kSurveyNetworks.begin())]
                                   [index_of(workers)];
}

// The seconds a byte costs: BSP's time beyond that of one GPU alone, less the start-ups.
double byte_seconds(const SurveyRow& row, int workers, double start_ups) {
  const double transfer = seconds_of(row, workers) - row.batch / row.single - start_ups;
  PACELINE_CHECK(transfer > 0,
                 "the calibration's row {} of {} on {} is faster with {} workers than one GPU "
                 "computes: check its throughput and that of a single one",
                 row.method, row.model, row.network, workers);
  return transfer / static_cast<double>(replay_model(row.model).bytes());
}

double server_byte_seconds(const SurveyRow& row, int workers, const SurveyConstants& constants) {
  const Model model = replay_model(row.model);
  const int parts = parts_of(
      model, barrier(model, {.path = Path::server, .part_bytes = kServerPart}).groups.front());
  return byte_seconds(row, workers, parts * constants.server_part);
}

// The mean over the network's models whose rows can be trusted; the model's own value when none
// can.
double trusted_server_byte(const SurveyTable& table, const SurveyConstants& constants,
                           std::string_view network, std::string_view model, int workers) {
  double sum = 0;
  int count = 0;
  for (const SurveyRow& row : table) {
    if (row.network != network || row.method != "BSP-PS") continue;
    if (is_suspicious(table, network, row.model, workers)) continue;
    sum += server_byte_seconds(row, workers, constants);
    ++count;
  }
  if (count > 0) return sum / count;
  return server_byte_seconds(bsp_row(table, network, model, "BSP-PS"), workers, constants);
}

// ByteScheduler's hooks run where gradients become ready.
Model with_plugin(Model model, double seconds_a_tensor) {
  for (Tensor& tensor : model.tensors) tensor.backward += seconds_a_tensor;
  return model;
}

bool is_first_of_its_figure(const SurveyTable& table, const SurveyRow& row) {
  const auto first = std::ranges::find_if(table, [&](const SurveyRow& other) {
    return other.network == row.network && other.model == row.model;
  });
  return &*first == &row;
}

// One network, model and number of workers.
class Cell {
 public:
  Cell(const SurveyTable& table, const SurveyConstants& constants, const SurveyRow& row,
       int workers)
      : constants_(constants), row_(row), workers_(workers), model_(surveyed_model(row)) {
    conditions_.interference = constants.interference;
    measured_.links =
        calibrated_links(table, constants, row.network, row.model, workers, /*trusted=*/false);
    trusted_.links =
        calibrated_links(table, constants, row.network, row.model, workers, /*trusted=*/true);
  }

  std::vector<SurveyForecast> forecasts(int general_simulations) const {
    std::vector<SurveyForecast> all;
    for (const MessagePlan& plan : survey_methods(model_, measured_.links)) all.push_back(of(plan));
    GeneralSettings settings{.conditions = conditions_};
    settings.most_simulations = general_simulations;
    const GeneralPlan best = general(model_, trusted_, settings);
    all.push_back(named("General", best.seconds));
    all.back().plan = to_string(best.plan, model_);
    return all;
  }

 private:
  SurveyForecast of(MessagePlan plan) const {
    const bool by_scripts = !constants_.bytescheduler_by_the_paper;
    if (plan.name == "ByteScheduler-A2A") {
      const double plugin = by_scripts ? constants_.plugin : 0;
      return named(plan.name,
                   iteration_seconds(with_plugin(model_, plugin), measured_, plan, conditions_));
    }
    const bool is_scheduled_server = plan.name == "ByteScheduler-PS";
    if (is_scheduled_server && by_scripts) plan.crosses_barrier = false;
    const Costs& costs = is_scheduled_server ? trusted_ : measured_;
    return named(plan.name, iteration_seconds(model_, costs, plan, conditions_));
  }

  SurveyForecast named(const std::string& method, double seconds) const {
    return {row_.network, row_.model, method, workers_, workers_ * row_.batch / seconds};
  }

  const SurveyConstants& constants_;
  const SurveyRow& row_;
  int workers_;
  Model model_;
  Conditions conditions_;
  Costs measured_, trusted_;
};

}  // namespace

SurveyConstants survey_constants() {
  constexpr double kLaunch = 50e-6, kAgreement = 12e-6;
  constexpr std::array<double, kSurveyNetworks.size()> kMessage = {6.4e-6, 21e-6, 95e-6};
  SurveyConstants constants = {};
  for (std::size_t network = 0; network < kMessage.size(); ++network) {
    for (std::size_t i = 0; i < kSurveyWorkers.size(); ++i) {
      const auto machines = static_cast<unsigned>(kSurveyWorkers[i] / kGpusInAMachine);
      constants.all_reduce_start[network][i] = kLaunch + kAgreement * kSurveyWorkers[i] +
                                               2 * std::bit_width(machines - 1) * kMessage[network];
    }
  }
  return constants;
}

SurveyConstants constants_of_d8() {
  SurveyConstants constants = {};
  constants.all_reduce_start.fill({100e-6, 250e-6, 400e-6, 500e-6});
  return constants;
}

bool is_suspicious(const SurveyTable& table, std::string_view network, std::string_view model,
                   int workers) {
  const SurveyRow* row = find(table, network, model, "BSP-PS");
  const SurveyRow* reference = find(table, network, model, "BSP-A2A");
  if (row == nullptr || reference == nullptr) return false;
  for (const SurveyRow& other : table) {
    if (other.model != model || other.network == network || other.method != "BSP-PS") continue;
    const SurveyRow* slower = find(table, other.network, model, "BSP-A2A");
    if (slower == nullptr) continue;
    const bool is_slower =
        rate_of(*slower, workers) < rate_of(*reference, workers) * (1 - kRepeats);
    if (is_slower && std::abs(rate_of(*row, workers) / rate_of(other, workers) - 1) < kRepeats)
      return true;
  }
  return false;
}

Model surveyed_model(const SurveyRow& row) {
  Model model = replay_model(row.model);
  model.batch = row.batch;
  return scaled(model, row.batch / row.single / model.compute());
}

LinkCosts calibrated_links(const SurveyTable& table, const SurveyConstants& constants,
                           std::string_view network, std::string_view model, int workers,
                           bool trusted) {
  const double start = start_of(constants, network, workers);
  const double byte = byte_seconds(bsp_row(table, network, model, "BSP-A2A"), workers, start);
  const double server_byte =
      trusted && is_suspicious(table, network, model, workers)
          ? trusted_server_byte(table, constants, network, model, workers)
          : server_byte_seconds(bsp_row(table, network, model, "BSP-PS"), workers, constants);
  LinkCosts links{.workers = workers, .all_reduce = {start, byte}, .all_gather = {start, byte}};
  links.server = LinkCosts::Server{.push = {constants.server_part, server_byte}};
  return links;
}

std::vector<SurveyForecast> simulate_survey(const SurveyTable& table,
                                            const SurveyConstants& constants,
                                            int general_simulations) {
  std::vector<SurveyForecast> all;
  for (const SurveyRow& row : table) {
    if (!is_first_of_its_figure(table, row)) continue;
    for (const int workers : kSurveyWorkers) {
      for (SurveyForecast& one :
           Cell(table, constants, row, workers).forecasts(general_simulations))
        all.push_back(std::move(one));
    }
  }
  return all;
}

}  // namespace paceline::survey
