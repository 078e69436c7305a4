#include "bench/survey/survey_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "paceline/core/schedule/replay/replay_models.h"

namespace paceline::survey {
namespace {

constexpr const char* kGeneral = "General";

constexpr const char* kMethods = R"(The survey's methods (table I) and ours
method              architecture  overlaps backward  fuses  splits  overlaps forward
BSP-PS              servers       no                 all    yes     no
BSP-A2A             all-to-all    no                 all    no      no
WFBP-PS             servers       yes                no     yes     no
WFBP-A2A            all-to-all    yes                no     no      no
MG-WFBP             all-to-all    yes                yes    no      no
ByteScheduler-PS    servers       yes                no     yes     by its paper
ByteScheduler-A2A   all-to-all    yes                no     yes     yes
General             either        yes                where it pays  yes

)";

// The source of a throughput, measured or simulated; it returns 0 when the value is not known.
using Source = std::function<double(std::string_view network, std::string_view model,
                                    std::string_view method, int workers)>;

Source measured_by(const SurveyRun& run) {
  return [&run](std::string_view network, std::string_view model, std::string_view method,
                int workers) -> double {
    const SurveyRow* row = find(run.measured, network, model, method);
    if (row == nullptr) return 0;
    const auto at = std::ranges::find(kSurveyWorkers, workers) - kSurveyWorkers.begin();
    return row->samples_per_second[static_cast<std::size_t>(at)];
  };
}

Source simulated_by(const SurveyRun& run) {
  return
      [&run](std::string_view network, std::string_view model, std::string_view method,
             int workers) { return forecast_of(run.simulated, network, model, method, workers); };
}

double best_of_seven(const Source& source, std::string_view model, int workers) {
  double best = 0;
  for (const std::string_view method : kSurveyMethods)
    best = std::max(best, source("100GbIB", model, method, workers));
  return best;
}

SurveyClaim speed_up(const SurveyRun& run, std::string_view model, int workers,
                     std::string_view told) {
  const SurveyRow* row = find(run.measured, "100GbIB", model, "BSP-A2A");
  const double best = best_of_seven(simulated_by(run), model, workers);
  return {fmt::format("best speed-up of {} on {} GPUs, 100GbIB", model, workers), std::string(told),
          row == nullptr ? "-" : fmt::format("{:.1f}x", best / row->single)};
}

// Counts the cells in which the first method is ahead of the second, among those with both.
SurveyClaim ahead(const SurveyRun& run, std::string_view first, std::string_view second) {
  const Source measured = measured_by(run), simulated = simulated_by(run);
  int cells = 0, of_survey = 0, of_simulation = 0;
  for (const SurveyRow& row : run.measured) {
    if (row.method != first) continue;
    for (const int workers : kSurveyWorkers) {
      const double other = measured(row.network, row.model, second, workers);
      if (other == 0) continue;
      ++cells;
      of_survey += measured(row.network, row.model, first, workers) > other ? 1 : 0;
      of_simulation += simulated(row.network, row.model, first, workers) >
                               simulated(row.network, row.model, second, workers)
                           ? 1
                           : 0;
    }
  }
  return {fmt::format("{} is ahead of {}", first, second),
          fmt::format("{} of {} cells", of_survey, cells),
          fmt::format("{} of {} cells", of_simulation, cells)};
}

SurveyClaim all_reduce_of_bert_large(const SurveyRun& run) {
  SurveyClaim claim{"all_reduce of BERT-Large's gradients, 4 GPUs", "441 ms", "-"};
  const SurveyRow* row = find(run.measured, "100GbIB", "BERT-Large", "BSP-A2A");
  if (row == nullptr) return claim;
  const auto links = calibrated_links(run.measured, survey_constants(), "100GbIB", "BERT-Large", 4,
                                      /*trusted=*/false);
  const auto bytes = static_cast<double>(schedule::bert_large().bytes());
  claim.simulated = fmt::format("{:.0f} ms", links.all_reduce(bytes) * 1e3);
  return claim;
}

std::string claims_text(const SurveyRun& run) {
  std::string text =
      fmt::format("{:<58}{:>18}{:>18}\n", "What the survey says", "survey", "simulated");
  for (const SurveyClaim& claim : survey_claims(run))
    text += fmt::format("{:<58}{:>18}{:>18}\n", claim.text, claim.survey, claim.simulated);
  return text + "\n";
}

std::string throughput_text(double value) {
  return value > 0 ? fmt::format("{:.1f}", value) : "-";
}

std::string figure_text(const SurveyFigure& figure) {
  std::string head = fmt::format("{:<19}", fmt::format("{}, {}", figure.model, figure.network));
  std::string under = fmt::format("{:<19}", "samples/s");
  for (const int workers : kSurveyWorkers) {
    head += fmt::format("{:^26}", fmt::format("{} GPUs", workers));
    under += fmt::format("{:>9}{:>10}{:>7}", "measured", "simulated", "error");
  }
  std::string text = head.substr(0, head.find_last_not_of(' ') + 1) + "\n" + under + "\n";
  for (const SurveyFigure::Line& line : figure.lines) {
    std::string row = fmt::format("{:<19}", line.method);
    for (const SurveyFigure::Cell& cell : line.cells)
      row += fmt::format("{:>9}{:>10}{:>7}", throughput_text(cell.measured),
                         throughput_text(cell.simulated), cell.error());
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text + "\n";
}

std::string verdict(const SurveyRun& run) {
  const auto orders = survey_orders(run.measured, run.simulated);
  const auto error = [&run](bool accepted_only) {
    SurveyCells cells;
    cells.accepted_only = accepted_only;
    return to_string(survey_error(run.measured, run.simulated, cells));
  };
  std::string text = fmt::format(
      "Error of the rows that are not BSP's: {}\n"
      "  with the rows that are in doubt (PS on 100GbE above 4 GPUs, ByteScheduler-A2A of "
      "ResNet-50): {}\n"
      "Orders of methods that differ by 3 % or more: {} of {} repeated\n",
      error(true), error(false), orders.repeated, orders.cells);
  for (const std::string& missed : orders.missed) text += "  missed: " + missed + "\n";
  return text;
}

}  // namespace

std::string SurveyFigure::Cell::error() const {
  if (measured <= 0 || simulated <= 0) return "";
  return fmt::format("{:+.1f}", 100 * (simulated / measured - 1));
}

std::vector<SurveyClaim> survey_claims(const SurveyRun& run) {
  return {speed_up(run, "ResNet-50", 4, "4x"),
          speed_up(run, "BERT-Base", 4, "3.1x"),
          speed_up(run, "BERT-Large", 4, "1.2x"),
          speed_up(run, "ResNet-50", 32, "31.6x"),
          speed_up(run, "BERT-Base", 32, "23.2x"),
          all_reduce_of_bert_large(run),
          ahead(run, "BSP-A2A", "BSP-PS"),
          ahead(run, "WFBP-PS", "WFBP-A2A"),
          ahead(run, "WFBP-PS", "BSP-PS"),
          ahead(run, "WFBP-A2A", "BSP-A2A"),
          ahead(run, "MG-WFBP", "WFBP-A2A"),
          ahead(run, "ByteScheduler-PS", "WFBP-PS"),
          ahead(run, "ByteScheduler-A2A", "WFBP-A2A")};
}

std::vector<SurveyFigure> survey_figures(const SurveyRun& run) {
  const Source measured = measured_by(run), simulated = simulated_by(run);
  std::vector<SurveyFigure> figures;
  for (const SurveyRow& row : run.measured) {
    if (row.method != "BSP-A2A") continue;
    SurveyFigure figure{row.network, row.model, {}};
    std::vector<std::string> methods(kSurveyMethods.begin(), kSurveyMethods.end());
    methods.emplace_back(kGeneral);
    for (const std::string& method : methods) {
      SurveyFigure::Line line{method, {}};
      for (const int workers : kSurveyWorkers)
        line.cells.push_back({measured(row.network, row.model, method, workers),
                              simulated(row.network, row.model, method, workers)});
      figure.lines.push_back(std::move(line));
    }
    figures.push_back(std::move(figure));
  }
  return figures;
}

std::string to_string(const SurveyError& error) {
  if (error.cells == 0) return "nothing measured to compare with";
  return fmt::format("{} cells, mean {:.1f} %, worst {:.1f} % ({})", error.cells, 100 * error.mean,
                     100 * error.worst, error.worst_cell);
}

std::string survey_text(const SurveyRun& run) {
  std::string text = kMethods + claims_text(run);
  for (const SurveyFigure& figure : survey_figures(run)) text += figure_text(figure);
  return text + verdict(run);
}

std::string survey_json(const SurveyRun& run) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const SurveyForecast& one : run.simulated) {
    rows.push_back({{"network", one.network},
                    {"model", one.model},
                    {"method", one.method},
                    {"workers", one.workers},
                    {"samples_per_second", one.samples_per_second}});
  }
  return rows.dump(1) + "\n";
}

}  // namespace paceline::survey
