#include "bench/survey/survey_page.h"

#include <fmt/format.h>

#include "paceline/app/cli/shared/text.h"
#include "paceline/core/observe/log_plot.h"

namespace paceline::survey {
namespace {

using cli::page;
using observe::escaped;

// Plots one kind of throughput of every method over the number of GPUs.
std::string plot(const SurveyFigure& figure, const std::string& kind,
                 double SurveyFigure::Cell::*part) {
  observe::LogPlot drawn;
  drawn.title = fmt::format("{}, {}: {}", figure.model, figure.network, kind);
  drawn.x = {.label = "GPUs", .origin = 1, .step = 2};
  drawn.y = {.label = "samples/s", .origin = 1, .step = 2};
  for (const SurveyFigure::Line& line : figure.lines) {
    observe::Curve curve{.name = line.method};
    for (std::size_t i = 0; i < line.cells.size(); ++i)
      curve.points.emplace_back(kSurveyWorkers[i], line.cells[i].*part);
    drawn.curves.push_back(std::move(curve));
  }
  return to_svg(drawn);
}

std::string table(const SurveyFigure& figure) {
  std::string html = "<div class=\"scroll\"><table>\n<thead><tr><th class=\"text\">method</th>";
  for (const int workers : kSurveyWorkers)
    html += fmt::format("<th>{} GPUs</th><th>simulated</th><th>error %</th>", workers);
  html += "</tr></thead>\n<tbody>\n";
  const auto cell = [](double value) {
    return value > 0 ? fmt::format("<td>{:.1f}</td>", value) : std::string("<td></td>");
  };
  for (const SurveyFigure::Line& line : figure.lines) {
    html += fmt::format("<tr><td class=\"text\">{}</td>", escaped(line.method));
    for (const SurveyFigure::Cell& one : line.cells)
      html += cell(one.measured) + cell(one.simulated) + fmt::format("<td>{}</td>", one.error());
    html += "</tr>\n";
  }
  return html + "</tbody>\n</table></div>\n";
}

std::string claims(const SurveyRun& run) {
  std::string html =
      "<table>\n<thead><tr><th class=\"text\">what the survey "
      "says</th><th>survey</th><th>simulated</th></tr>"
      "</thead>\n<tbody>\n";
  for (const SurveyClaim& claim : survey_claims(run)) {
    html += fmt::format("<tr><td class=\"text\">{}</td><td>{}</td><td>{}</td></tr>\n",
                        escaped(claim.text), escaped(claim.survey), escaped(claim.simulated));
  }
  return html + "</tbody>\n</table>\n";
}

}  // namespace

std::string survey_page(const SurveyRun& run) {
  std::string body = claims(run);
  for (const SurveyFigure& figure : survey_figures(run)) {
    body += fmt::format("<h2>{}, {}</h2>\n", escaped(figure.model), escaped(figure.network));
    body += plot(figure, "measured", &SurveyFigure::Cell::measured);
    body += plot(figure, "simulated", &SurveyFigure::Cell::simulated) + table(figure);
  }
  return page("The survey, measured and simulated",
              {{"Error of the rows that are not BSP's",
                to_string(survey_error(run.measured, run.simulated))}},
              body);
}

}  // namespace paceline::survey
